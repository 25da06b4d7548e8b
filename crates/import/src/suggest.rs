//! Which column a header probably means. A mapping is only ever suggested, never applied.

use std::borrow::Cow;

use crate::ReadOptions;
use crate::mapping::Field;

/// The headers that other programs and people use, in letters and digits only, and the column that each probably means. The likeliest
/// come first.
const LIKELY: [(&str, &str); 9] = [
    (
        "profileUrl",
        "profileurl linkedinurl linkedinprofileurl linkedinprofile linkedin personlinkedinurl \
         contactlinkedinprofileurl linkedinlink linkedinprofil linkedinprofilurl profillinkedin urllinkedin \
         lienlinkedin perfillinkedin perfilenlinkedin enlacelinkedin xingurl xingprofile xingprofil xing profile \
         profilelink publicprofileurl profil profilurl perfil url",
    ),
    (
        "phone",
        "mobile mobilephone mobilenumber mobilephonenumber phone phonenumber cell cellphone phonemobile \
         phone1value phone1 telephone tel telefon telefonnummer telefonnr telnr handy handynummer handynr mobil \
         mobiltelefon mobilnummer mobilnr telefonmobil telefonhandy rufnummer telephonemobile telephoneportable \
         mobiletelephone portable numeroportable numerotelephone telefono telefonomovil telefonofijo movil celular \
         numerotelefono cellulare festnetz primaryphone phones direct directdial durchwahl",
    ),
    (
        "email",
        "email emailaddress primaryemail email1value email1 emailaddress1 mail mailadresse emailadresse \
         courriel adressemail adresseemail adressecourriel correo correoelectronico direccioncorreo \
         direccionemail indirizzoemail contactemail",
    ),
    ("confidence", "confidencescore score matchscore konfidenz confiance confianza"),
    (
        "observedAt",
        "observed lastverified verifiedat lastupdated lastupdate updatedat updated aktualisiert lastmodified \
         lastmodifieddate lastmodifiedat modifiedon changedon letzteaktualisierung aktualisiertam geandertam \
         zuletztgeandert zuletztgeandertam letzteanderung anderungsdatum stand modifiele misajourle \
         datemodification datemiseajour dernieremodification dernieremiseajour fechamodificacion \
         ultimamodificacion ultimaactualizacion modificadoel actualizadoel",
    ),
    ("basis", "legalbasis lawfulbasis gdprbasis rechtsgrundlage baselegale baselegal basejuridica"),
    (
        "expiresAt",
        "expires expiry expirydate expirationdate validuntil ablaufdatum gultigbis lauftabam expirele \
         dateexpiration validejusquau caducidad fechacaducidad validohasta",
    ),
    ("region", "countrycode landercode landercodeiso codepays codigopais isocountry"),
    ("source", "leadsource datasource recordsource quelle datenquelle origine fuente origen"),
];

/// Words that say that a number or an address is for work.
const WORK: &str = "work business office company corporate geschaft geschaftlich geschaftl dienst dienstlich beruflich buro \
                    firma arbeit pro professionnel professionnelle bureau travail entreprise trabajo laboral oficina empresa \
                    profesional";

/// Words that do not change what a header means: that a number or an address is personal, and small words.
const LEFT_OUT: &str = "private personal home privat private privater persoenlich personlich prive privee perso personnel \
                        personnelle domicile casa particular privado personales de del du des la le el der die das d l";

/// The field that a header probably means, and how likely: the smaller the number, the likelier.
pub(crate) fn meaning(header: &str) -> Option<(Field, usize)> {
    let words = words(header);
    let likely = |words: &[&str]| {
        let plain = words.concat();
        LIKELY.iter().find_map(|(column, likely)| {
            let place = if plain.eq_ignore_ascii_case(column) {
                0
            } else {
                likely.split_whitespace().position(|likely| likely == plain)? + 1
            };
            Some((*column, place))
        })
    };
    let all: Vec<&str> = words.iter().map(String::as_str).collect();
    let is_one_of = |word: &str, list: &str| list.split_whitespace().any(|one| one == word);
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let is_kept = |word: &&str| !is_one_of(word, WORK) && !is_one_of(word, LEFT_OUT) && !is_number(word);
    let kept: Vec<&str> = all.iter().copied().filter(is_kept).collect();
    // `Phone (mobile)`: each word means it.
    let each = || {
        let mut columns = kept.iter().map(|word| likely(&[word]).map(|(column, _)| column));
        let first = columns.next()??;
        columns.all(|column| column == Some(first)).then_some((first, 100))
    };
    let (column, place) = likely(&all).or_else(|| likely(&kept)).or_else(each)?;
    let is_work = all.iter().any(|word| is_one_of(word, WORK));
    let labelled = if is_work { Field::parse(&format!("{column}:work")) } else { None };
    // Words were left out, or stand for one: others are likelier.
    let place = if likely(&all).is_some() { place } else { place + 100 };
    Some((labelled.or_else(|| Field::parse(column))?, place))
}

/// What each of the `unused` headers probably means, if no other column is that already. Several columns may be numbers or addresses.
pub(crate) fn suggestions(unused: &[String], is_there: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
    let mut likely: Vec<(Field, usize, &String)> = unused
        .iter()
        .filter_map(|header| meaning(header).map(|(field, place)| (field, place, header)))
        .filter(|(field, ..)| !is_there(field.column_name()))
        .collect();
    likely.sort_by_key(|(field, place, _)| (field.column(), *place));
    let mut suggested: Vec<(&'static str, String)> = Vec::new();
    for (field, _, header) in likely {
        if field.may_repeat() || !suggested.iter().any(|(other, _)| *other == field.name()) {
            suggested.push((field.name(), header.clone()));
        }
    }
    suggested
}

/// Whether a header is the name of a column, is mapped to one, or probably means one.
pub(crate) fn means_something(header: &str, options: &ReadOptions) -> bool {
    let header = header.trim();
    options.mapping.iter().any(|(_, mapped)| mapped == header) || meaning(header).is_some()
}

/// The words of a header, in lower case and without accents of the Latin-1 range. `E-Mail` is one word.
fn words(header: &str) -> Vec<String> {
    let plain: String = header
        .chars()
        .flat_map(char::to_lowercase)
        .map(|c| match c {
            'à'..='å' => Cow::Borrowed("a"),
            'ç' => Cow::Borrowed("c"),
            'è'..='ë' => Cow::Borrowed("e"),
            'ì'..='ï' => Cow::Borrowed("i"),
            'ñ' => Cow::Borrowed("n"),
            'ò'..='ö' => Cow::Borrowed("o"),
            'ù'..='ü' => Cow::Borrowed("u"),
            'ß' => Cow::Borrowed("ss"),
            c => Cow::Owned(c.to_string()),
        })
        .collect();
    let words = plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_owned).collect()
}

/// Whether a header is probably a value: the file has no header then, and the value is nobody's name for a column.
pub(crate) fn looks_like_data(header: &str) -> bool {
    let digits = header.bytes().filter(u8::is_ascii_digit).count();
    let is_address = header.split_once('@').is_some_and(|(_, domain)| domain.contains('.'));
    is_address || header.contains("://") || header.to_ascii_lowercase().contains(".com/") || digits >= 7
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(unused: &[&str], there: &[&str]) -> Vec<(&'static str, String)> {
        let unused: Vec<String> = unused.iter().map(|&header| header.to_owned()).collect();
        suggestions(&unused, |column| there.contains(&column))
    }

    #[test]
    fn likely_headers_are_suggested_for_what_is_missing() {
        let unused = ["Name", "E-mail", "LinkedIn URL", "Phone Number", "Téléphone"];
        assert_eq!(
            suggested(&unused, &[]),
            [
                ("profileUrl", "LinkedIn URL".to_owned()),
                ("phone", "Phone Number".to_owned()),
                ("phone", "Téléphone".to_owned()),
                ("email", "E-mail".to_owned())
            ]
        );
        assert_eq!(suggested(&unused, &["profileUrl", "phone"]), [("email", "E-mail".to_owned())]);
        assert_eq!(suggested(&["Name", "Notes"], &[]), []);
    }

    #[test]
    fn headers_of_four_languages_are_understood() {
        for (field, headers) in [
            (
                "phone",
                "Handy|Mobil|Handy/Mobil|Phone (mobil)|Telefon privat|Tel. (privat)|Phone (home)|Téléphone portable|Portable|Teléfono móvil|Handy 2",
            ),
            (
                "phone:work",
                "Telefon geschäftlich|Tel. dienstlich|Business Phone 2|Téléphone professionnel|Teléfono del trabajo|Work phone",
            ),
            (
                "email",
                "E-Mail privat|E-Mail-Adresse|Mail|Personal Email|Adresse e-mail|Courriel|Correo electrónico|Correo electrónico personal",
            ),
            (
                "email:work",
                "E-Mail geschäftlich|Business Email|E-Mail (Büro)|Courriel professionnel|Correo de la empresa",
            ),
            ("profileUrl", "LinkedIn-Profil|LinkedIn|Profil LinkedIn|Perfil de LinkedIn|URL|XING-Profil"),
            (
                "observedAt",
                "Geändert am|Stand|Last modified|Modifié le|Date de modification|Fecha de modificación",
            ),
            ("expiresAt", "Gültig bis|Valid until|Valide jusqu'au|Válido hasta"),
            ("basis", "Rechtsgrundlage|Lawful basis|Base légale"),
            ("source", "Quelle|Lead Source|Fuente"),
        ] {
            for header in headers.split('|') {
                assert_eq!(meaning(header).map(|(field, _)| field.name()), Some(field), "{header}");
            }
        }
        for header in ["Name", "Firma", "Anrede", "Notizen", "Work", "Phone status", "E-Mail Handy", "2", ""]
        {
            assert!(meaning(header).is_none(), "{header}");
        }
    }

    #[test]
    fn values_are_not_taken_for_headers() {
        for value in
            ["https://example.com", "ada@example.com", "+1 415 555 0123", "linkedin.com/in/ada-quell"]
        {
            assert!(looks_like_data(value), "{value}");
        }
        for header in ["E-mail", "Phone 1 - Value", "LinkedIn URL", "@handle", ""] {
            assert!(!looks_like_data(header), "{header}");
        }
    }
}
