//! Which column a header probably means. A mapping is only ever suggested, never applied.

/// The headers that other programs use, in letters and digits only, and the column that each probably means.
const LIKELY: [(&str, &str); 8] = [
    (
        "profileUrl",
        "profileurl linkedinurl linkedinprofileurl linkedinprofile linkedin personlinkedinurl \
         contactlinkedinprofileurl linkedinlink linkedinprofil xingurl xingprofile xing profile \
         profilelink publicprofileurl profil url",
    ),
    (
        "phone",
        "mobile mobilephone mobilenumber mobilephonenumber phonenumber cell cellphone phonemobile \
         personalphone phone1value phone1 telephone tel telefon telefonnummer handy handynummer mobil \
         mobiltelefon mobilnummer telephonemobile portable telefono movil cellulare primaryphone \
         phones",
    ),
    (
        "email",
        "emailaddress personalemail personalemailaddress primaryemail email1value email1 \
         emailaddress1 mail mailadresse emailadresse courriel adressemail correo correoelectronico \
         indirizzoemail contactemail",
    ),
    ("confidence", "confidencescore score matchscore"),
    (
        "observedAt",
        "observed lastverified verifiedat lastupdated updatedat lastmodified lastmodifieddate \
         modifiedon letzteaktualisierung",
    ),
    ("basis", "legalbasis lawfulbasis gdprbasis rechtsgrundlage baselegale"),
    ("expiresAt", "expires expiry expirydate expirationdate validuntil"),
    ("source", "leadsource datasource recordsource quelle"),
];

/// For each column that is not there, the header among `unused` that probably means it.
pub(crate) fn suggestions(unused: &[String], is_there: impl Fn(&str) -> bool) -> Vec<(&'static str, String)> {
    let plain: Vec<(String, &String)> = unused.iter().map(|header| (letters(header), header)).collect();
    let wanted = LIKELY.into_iter().filter(|(column, _)| !is_there(column));
    wanted
        .filter_map(|(column, likely)| {
            let own = column.to_lowercase();
            let means = |name: &str| plain.iter().find(|(plain, _)| plain == name);
            let (_, header) = means(&own).or_else(|| likely.split(' ').find_map(means))?;
            Some((column, (*header).clone()))
        })
        .collect()
}

/// The letters and digits of a header, in lower case and without accents of the Latin-1 range.
fn letters(header: &str) -> String {
    header
        .chars()
        .flat_map(char::to_lowercase)
        .map(|c| match c {
            'à'..='å' => 'a',
            'è'..='ë' => 'e',
            'ì'..='ï' => 'i',
            'ò'..='ö' => 'o',
            'ù'..='ü' => 'u',
            c => c,
        })
        .filter(char::is_ascii_alphanumeric)
        .collect()
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
                ("email", "E-mail".to_owned())
            ]
        );
        assert_eq!(suggested(&unused, &["profileUrl", "phone"]), [("email", "E-mail".to_owned())]);
        assert_eq!(suggested(&["Name", "Notes"], &[]), []);
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
