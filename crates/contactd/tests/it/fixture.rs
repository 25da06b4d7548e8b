//! Invented people.

pub(crate) const ADA: &str = "https://www.linkedin.com/in/ada-quell-1a2b3c";
pub(crate) const ADA_CANONICAL: &str = "https://linkedin.com/in/ada-quell-1a2b3c";
pub(crate) const ADA_PHONE: &str = "+14155550123";
pub(crate) const ADA_EMAIL: &str = "ada@example.com";

/// Has an e-mail address and no phone number.
pub(crate) const EVE: &str = "https://www.linkedin.com/in/eve-nuvel-2b3c4d";
pub(crate) const EVE_EMAIL: &str = "Eve.Nuvel@example.org";

/// Has only work details.
pub(crate) const UNA: &str = "https://www.linkedin.com/in/una-vastor-3c4d5e";

/// Has a phone number that has expired.
pub(crate) const OLD: &str = "https://www.linkedin.com/in/old-ebrix-4d5e6f";

/// Is on XING, where case matters.
pub(crate) const MIRA: &str = "https://www.xing.com/profile/Mira_Quellbach2";
pub(crate) const MIRA_PHONE: &str = "+442079460123";

/// Is not in the store.
pub(crate) const NOBODY: &str = "https://www.linkedin.com/in/nobody-dornwett-5e6f70";

pub(crate) const PEOPLE: &str = "\
profileUrl,phone,email,phoneLabel,emailLabel,confidence,observedAt,basis,expiresAt,region
https://www.linkedin.com/in/ada-quell-1a2b3c,+14155550123,ada@example.com,personal,personal,90,2026-05-01,consent,,
https://www.linkedin.com/in/ada-quell-1a2b3c,+14155550124,ada.old@example.com,personal,personal,80,2026-06-01,consent,,
https://www.linkedin.com/in/ada-quell-1a2b3c,+14155550125,ada@work.example.com,work,work,100,2026-06-01,consent,,
https://www.linkedin.com/in/eve-nuvel-2b3c4d,,Eve.Nuvel@example.org,,,,,,,
https://www.linkedin.com/in/una-vastor-3c4d5e,(415) 555-0177,una@work.example.com,work,work,,,,,US
https://www.linkedin.com/in/old-ebrix-4d5e6f,+14155550188,,,,,,,2020-01-01,
https://www.xing.com/profile/Mira_Quellbach2,+44 20 7946 0123,,,,,,,,
";

/// A file of many people, each with a number and an address. Their slugs begin with this text.
pub(crate) fn many(slug: &str, count: usize) -> String {
    let row = |n| {
        let number = 100 + n % 100;
        format!("https://www.linkedin.com/in/{slug}-{n:05},+1415555{number:04},{slug}-{n}@example.com\n")
    };
    format!("profileUrl,phone,email\n{}", (0..count).map(row).collect::<String>())
}

/// What must never be in a log or a metric: text that the details of all invented people, here and in the tests, have in
/// common, including unknown people. Their numbers are in reserved ranges, their addresses in reserved domains, and their slugs
/// consist of these names.
const PERSONAL: [&str; 13] = [
    "41555501",
    ") 555-01",
    "20794601",
    "@example",
    "@work",
    "example.com",
    "example.org",
    "quell",
    "nuvel",
    "vastor",
    "ebrix",
    "dornwett",
    "ctd_",
];

/// Fails if `text` contains personal data or a token.
pub(crate) fn assert_nothing_personal(text: &str) {
    // The names of our metrics start with contactd_, which contains the token prefix.
    let text = text.replace("contactd_", "");
    for personal in PERSONAL {
        assert!(!text.to_lowercase().contains(personal), "{personal} is in {text}");
    }
}
