//! The rules about length. `rules.jsonl` has examples of the others.

use contactd_profile::{Networks, Reason};

fn canonical(input: &str) -> Result<String, Reason> {
    Networks::built_in().canonicalize(input).map(|profile| profile.as_str().to_owned())
}

#[track_caller]
fn accepts(input: &str, slug: &str) {
    assert_eq!(
        canonical(input).as_deref(),
        Ok(format!("https://linkedin.com/in/{slug}").as_str()),
        "{input:?}"
    );
}

#[track_caller]
fn refuses(input: &str, reason: Reason) {
    assert_eq!(canonical(input), Err(reason), "{input:?}");
}

#[test]
fn length_counts_characters_after_trimming() {
    let url = |length: usize| {
        let start = "https://linkedin.com/in/ada-quell?";
        format!("{start}{}", "é".repeat(length - start.len()))
    };
    accepts(&url(2_048), "ada-quell");
    accepts(&format!("  {}  ", url(2_048)), "ada-quell");
    refuses(&url(2_049), Reason::TooLong);
}

#[test]
fn a_slug_is_counted_in_its_final_form() {
    let e_acute = "e\u{301}";
    accepts(&format!("https://linkedin.com/in/{}", e_acute.repeat(100)), &"%C3%A9".repeat(100));
    refuses(&format!("https://linkedin.com/in/{}", e_acute.repeat(101)), Reason::BadSlug);
    refuses(&format!("https://linkedin.com/in/{}", e_acute.repeat(2)), Reason::BadSlug);
    accepts(&format!("https://linkedin.com/in/{}", "a".repeat(100)), &"a".repeat(100));
    refuses(&format!("https://linkedin.com/in/{}", "a".repeat(101)), Reason::BadSlug);
    // İ becomes two characters in lower case.
    refuses(&format!("https://linkedin.com/in/{}", "İ".repeat(51)), Reason::BadSlug);
    accepts("https://linkedin.com/in/İz", "i%CC%87z");
}
