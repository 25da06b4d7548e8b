//! Tests the rules one by one.

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
fn both_ends_are_trimmed_of_what_copying_brings_along() {
    for around in [
        "\u{A0}",
        "\u{3000}",
        "\u{2028}",
        "\u{85}",
        "\u{FEFF}",
        "\u{200B}\u{200E}",
        "\t\u{B}\u{C}\r\n",
        "\u{2060}",
    ] {
        accepts(&format!("{around}linkedin.com/in/ada-quell{around}"), "ada-quell");
    }
    refuses("\u{200B} \u{FEFF}", Reason::Empty);
    refuses("\u{1C}linkedin.com/in/ada-quell", Reason::ControlChar);
    refuses("linkedin.com/in/ada-quell\0", Reason::ControlChar);
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
fn nothing_invisible_or_blank_may_stand_inside() {
    refuses("https://linkedin.com/in/ada\tquell", Reason::ControlChar);
    refuses("https://linkedin.com/in/ada-quell?x=\u{7F}", Reason::ControlChar);
    refuses("https://linkedin.com/in/ada\u{85}quell", Reason::ControlChar);
    refuses("https://linkedin.com/in/ada\u{2060}quell", Reason::ControlChar);
    refuses("https://linkedin.com/in/ada\u{A0}quell", Reason::NotAUrl);
    refuses("https://linkedin.com/in/ada-quell see you", Reason::NotAUrl);
    refuses("https://linkedin.com/in\\ada-quell", Reason::NotAUrl);
    accepts("https://linkedin.com/in/ada-quell?a=\\b", "ada-quell");
}

#[test]
fn a_scheme_is_http_or_https_or_none() {
    for start in ["http://", "HTTPS://", "//", ""] {
        accepts(&format!("{start}linkedin.com/in/ada-quell"), "ada-quell");
    }
    for (input, reason) in [
        ("ftp://linkedin.com/in/ada-quell", Reason::BadScheme),
        ("mailto:ada@example.com", Reason::BadScheme),
        ("javascript:alert(1)//linkedin.com/in/ada", Reason::BadScheme),
        ("https:/linkedin.com/in/ada-quell", Reason::NotAUrl),
        ("https:linkedin.com/in/ada-quell", Reason::NotAUrl),
        ("://linkedin.com/in/ada-quell", Reason::NotAUrl),
        ("ada-quell", Reason::NotAUrl),
        ("@ada-quell", Reason::NotAUrl),
        ("/in/ada-quell", Reason::NotAUrl),
        ("(https://linkedin.com/in/ada-quell)", Reason::NotAUrl),
        ("\"linkedin.com/in/ada-quell\"", Reason::NotAUrl),
        ("https://http://linkedin.com/in/ada-quell", Reason::NotAUrl),
    ] {
        refuses(input, reason);
    }
}

#[test]
fn ports_are_the_schemes_own() {
    for good in
        ["https://linkedin.com:443", "http://linkedin.com:80", "https://linkedin.com:", "linkedin.com:443"]
    {
        accepts(&format!("{good}/in/ada-quell"), "ada-quell");
    }
    for bad in [
        "http://linkedin.com:443",
        "https://linkedin.com:80",
        "https://linkedin.com:0443",
        "linkedin.com:8080",
    ] {
        refuses(&format!("{bad}/in/ada-quell"), Reason::BadPort);
    }
}

#[test]
fn hosts_are_compared_by_whole_labels() {
    for good in ["LINKEDIN.com", "linkedin.com.", "www.linkedin.com", "Uk.linkedin.com", "touch.linkedin.com"]
    {
        accepts(&format!("https://{good}/in/ada-quell"), "ada-quell");
    }
    for bad in [
        "linkedin.com..",
        ".linkedin.com",
        "www..linkedin.com",
        "xlinkedin.com",
        "linkedin.com.example",
        "linkedin.co",
        "evil.com%2F.linkedin.com",
        "ｌinkedin.com",
        "linkedin。com",
        "127.0.0.1",
        "[::1]",
        "www_x.linkedin.com",
        "",
    ] {
        refuses(&format!("https://{bad}/in/ada-quell"), Reason::BadHost);
    }
    for sub in ["business", "de.www", "u1", "usa", "www.www", "-"] {
        refuses(&format!("https://{sub}.linkedin.com/in/ada-quell"), Reason::UnsupportedSubdomain);
    }
    refuses("https://de.xing.com/profile/Ada_Quell", Reason::UnsupportedSubdomain);
    for short in ["lnkd.in/abc", "https://www.lnkd.in/abc", "https://XING.to/abc"] {
        refuses(short, Reason::ShortLink);
    }
    refuses("https://@linkedin.com/in/ada-quell", Reason::Userinfo);
    refuses("https://a:b@linkedin.com:99/in/ada-quell", Reason::Userinfo);
}

#[test]
fn a_url_that_is_encoded_as_a_whole_is_bad_encoding() {
    for encoded in [
        "https%3A%2F%2Fwww.linkedin.com%2Fin%2Fada-quell",
        "https%3a%2f%2fwww.linkedin.com%2fin%2fada-quell?x=1",
        "HTTP%3A%2F%2Flinkedin.com%2Fin%2Fada-quell",
        "https%3A//linkedin.com/in/ada-quell",
        "https%3A%2F%2Flinkedin.com:443%2Fin%2Fada-quell",
        "https%253A%252F%252Flinkedin.com%252Fin%252Fada-quell",
        " https%3A%2F%2Fevil.example%2F ",
    ] {
        refuses(encoded, Reason::BadEncoding);
    }
    refuses("linkedin.com%2Fin%2Fada-quell", Reason::BadHost);
    refuses("ftp%3A%2F%2Flinkedin.com%2Fin%2Fada-quell", Reason::BadHost);
    refuses("https%.linkedin.com/in/ada-quell", Reason::BadEncoding);
}

#[test]
fn every_segment_decodes_once_and_none_climbs() {
    accepts("https://linkedin.com/%69%6E/ada%2Dquell", "ada-quell");
    for (path, reason) in [
        ("in/ada-quell/%zz", Reason::BadEncoding),
        ("in/ada%2", Reason::BadEncoding),
        ("in/ada%FFquell", Reason::BadEncoding),
        ("in/ada%C0%AFquell", Reason::BadEncoding),
        ("in/ada%ED%A0%80quell", Reason::BadEncoding),
        ("in/ada%2541quell", Reason::BadEncoding),
        ("in/ada-quell/%2e%2E", Reason::PathTraversal),
        ("in/./ada-quell", Reason::PathTraversal),
        ("in/%2e/ada-quell", Reason::PathTraversal),
        ("in/ada%2Fquell", Reason::BadSlug),
        ("in/ada%5Cquell", Reason::BadSlug),
        ("in/ada%0Aquell", Reason::BadSlug),
        ("in/ada-quell/a%2Fb", Reason::BadSlug),
        ("in//ada-quell", Reason::EmptySegment),
        ("/in/ada-quell", Reason::EmptySegment),
        ("in/ada-quell//details", Reason::EmptySegment),
    ] {
        refuses(&format!("https://linkedin.com/{path}"), reason);
    }
    accepts("https://linkedin.com/in/ada-quell/////", "ada-quell");
}

#[test]
fn routes_lead_to_a_person_or_say_what_they_are() {
    for path in ["in", "IN", "mwlite/in", "mwlite/profile/in", "m/in", "comm/in", "incareer/in"] {
        accepts(&format!("https://linkedin.com/{path}/ada-quell/recent-activity/all/"), "ada-quell");
    }
    for (path, reason) in [
        ("", Reason::NoSlug),
        ("in/", Reason::NoSlug),
        ("comm/", Reason::NoSlug),
        ("comm/in", Reason::NoSlug),
        ("school/quell", Reason::NotPerson),
        ("posts/ada-quell_x", Reason::NotPerson),
        ("pub/dir/Ada/Quell", Reason::NotPerson),
        ("pub/DIR", Reason::NotPerson),
        ("sales/lead/ACwAA,x", Reason::InternalId),
        ("sales/search/people", Reason::NotPerson),
        ("talent/profile/AEMAA", Reason::InternalId),
        ("talent/hire/123/manage/all/profile/AEMAA", Reason::InternalId),
        ("talent/search", Reason::NotPerson),
        ("recruiter/profile/1,2", Reason::InternalId),
        ("profile/view?id=1", Reason::InternalId),
        ("profile/ada-quell", Reason::NotPerson),
    ] {
        refuses(&format!("https://linkedin.com/{path}"), reason);
    }
}

#[test]
fn the_old_public_form_is_the_same_person() {
    accepts("https://linkedin.com/pub/Ada-Quell/1/2A/3b", "ada-quell-03b02a1");
    accepts("https://linkedin.com/pub/ada-quell/0/2/3", "ada-quell-003002");
    accepts("https://linkedin.com/pub/ada-quell/00/2/3", "ada-quell-00300200");
    accepts("https://linkedin.com/pub/jos%C3%A9/abc/def/123/de", "jos%C3%A9-123defabc");
    for bad in ["pub", "pub/ada", "pub/ada/1/2", "pub/ada/1/2/g", "pub/ada/1/2/1234", "pub/ada/1//3"] {
        let reason = if bad.contains("//") { Reason::EmptySegment } else { Reason::BadLegacy };
        refuses(&format!("https://linkedin.com/{bad}"), reason);
    }
}

#[test]
fn slugs_hold_letters_of_any_script_and_no_punctuation() {
    accepts("https://linkedin.com/in/ада-квелл", "%D0%B0%D0%B4%D0%B0-%D0%BA%D0%B2%D0%B5%D0%BB%D0%BB");
    accepts("https://linkedin.com/in/O\u{2019}Quell", "o%E2%80%99quell");
    accepts("https://linkedin.com/in/\u{1F469}\u{200D}\u{1F52C}x", "%F0%9F%91%A9%E2%80%8D%F0%9F%94%ACx");
    accepts("https://linkedin.com/in/\u{1F44B}\u{1F3FD}\u{200D}a", "%F0%9F%91%8B%F0%9F%8F%BD%E2%80%8Da");
    accepts("https://linkedin.com/in/€uro", "%E2%82%ACuro");
    accepts("https://linkedin.com/in/\u{E000}ab", "%EE%80%80ab");
    for bad in [
        "ada.quell",
        "ada+quell",
        "ada$quell",
        "ada~quell",
        "ada|quell",
        "ada^quell",
        "ada*quell",
        "ada=quell",
        "ada@quell",
        "ada:quell",
        "ada;quell",
        "ada,quell",
        "ada!quell",
        "a\u{200D}da",
        "-\u{200C}ada",
        "ada\u{AD}quell",
        "ada\u{202E}quell",
        "ada…",
        "ада·",
        "---",
        "\u{2019}\u{2019}\u{2019}",
        "ab",
        "ada%20quell",
        "ada%E2%80%8Bquell",
        "\u{E0041}abc",
        "ada\u{FFFE}q",
    ] {
        refuses(&format!("https://linkedin.com/in/{bad}"), Reason::BadSlug);
    }
    for reserved in ["me", "ME", "Null", "undefined", "Unavailable", "%6De"] {
        refuses(&format!("https://linkedin.com/in/{reserved}"), Reason::ReservedSlug);
    }
    refuses("https://xing.com/profile/My_Profile", Reason::ReservedSlug);
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

#[test]
fn case_is_folded_where_it_means_nothing() {
    accepts("https://linkedin.com/in/ÀDA-QUELL", "%C3%A0da-quell");
    accepts("https://linkedin.com/in/A\u{300}DA", "%C3%A0da");
    accepts("https://linkedin.com/in/STRAẞE", "stra%C3%9Fe");
    accepts("https://linkedin.com/in/ΟΔΟΣ", "%CE%BF%CE%B4%CE%BF%CF%82");
    accepts("https://linkedin.com/in/\u{212A}elvin", "kelvin");
    assert_eq!(canonical("xing.com/profile/Ada_QUELL").as_deref(), Ok("https://xing.com/profile/Ada_QUELL"));
    assert_eq!(canonical("xing.com/HP/Ada_Quell/cv").as_deref(), Ok("https://xing.com/profile/Ada_Quell"));
}

#[test]
fn member_ids_keep_their_case_or_are_refused() {
    let rest = "BexampleOnlyInventedMember-Id_0001";
    assert_eq!(rest.len(), 34);
    accepts(&format!("https://linkedin.com/in/ACoAA{rest}"), &format!("ACoAA{rest}"));
    accepts(&format!("https://linkedin.com/in/ACwAA{rest}"), &format!("ACwAA{rest}"));
    for start in ["acoaa", "ACOAA", "AcwAA", "ACoAa", "AEMAA", "aemaa"] {
        refuses(&format!("https://linkedin.com/in/{start}{rest}"), Reason::InternalId);
    }
    accepts(
        &format!("https://linkedin.com/in/ACoAA{}\u{212A}", &rest[1..]),
        &format!("ACoAA{}K", &rest[1..]),
    );
    // One character more or less makes it an ordinary slug.
    accepts(&format!("https://linkedin.com/in/ACoAA{rest}x"), &format!("acoaa{}x", rest.to_lowercase()));
    accepts(
        &format!("https://linkedin.com/in/AEMAA{}", &rest[1..]),
        &format!("aemaa{}", rest[1..].to_lowercase()),
    );
    refuses(&format!("https://linkedin.com/in/ACoAA{}é", &rest[1..]), Reason::InternalId);
}
