//! What is wrong with JSON or a query that has not the expected shape, in words. Nothing that was sent as a value is quoted,
//! because it may be personal.

use serde_path_to_error::Segment;

/// What is wrong with a body that is JSON.
pub(super) fn of_body(body: &[u8], error: &serde_path_to_error::Error<serde_json::Error>) -> String {
    if !body.trim_ascii_start().starts_with(b"{") {
        return "The body must be a JSON object.".to_owned();
    }
    let text = error.inner().to_string();
    let said = text.rsplit_once(" at line ").map_or(&*text, |(said, _)| said);
    if let Some(words) = of_field("field", said) {
        return words;
    }
    let name = error.path().iter().rev().find_map(|segment| match segment {
        Segment::Map { key } => Some(key),
        _ => None,
    });
    match name {
        Some(name) => of_value("field", name, said),
        None => "The body is not as expected.".to_owned(),
    }
}

/// What is wrong with a query. `said` is what its reader says: the name of the parameter, a colon and the fault.
pub(super) fn of_query(said: &str) -> String {
    let (name, fault) = said.split_once(": ").unwrap_or(("", said));
    if let Some(words) = of_field("parameter", fault) {
        return words;
    }
    match name {
        "" => "The query is not as expected.".to_owned(),
        name => of_value("parameter", name, fault),
    }
}

/// What is wrong with the names of fields, if that is it.
fn of_field(what: &str, said: &str) -> Option<String> {
    let names = quoted(said);
    let first = names.first()?;
    if said.starts_with("missing field") {
        return Some(format!("The {what} {first} is missing."));
    }
    if said.starts_with("duplicate field") {
        return Some(format!("The {what} {first} is there twice."));
    }
    if !said.starts_with("unknown field") {
        return None;
    }
    Some(match &names[1..] {
        [] => format!("There is no {what} {}, and none is expected.", shortened(first)),
        known => format!("There is no {what} {}. There are: {}.", shortened(first), known.join(", ")),
    })
}

/// What is wrong with the value of a field.
fn of_value(what: &str, name: &str, said: &str) -> String {
    let expected = said.rsplit_once("expected ").map_or(said, |(_, expected)| expected);
    let is_too_large = said.starts_with("invalid value: integer") && !said.contains("`-");
    let must = match expected {
        _ if said.starts_with("unknown variant") => {
            format!("must be one of: {}", quoted(said)[1..].join(", "))
        }
        "u8" | "u16" | "u32" | "u64" | "usize" if is_too_large => "must be a smaller number".to_owned(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "must be a whole number, 0 or more".to_owned(),
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "must be a whole number, 0 or more".to_owned()
        }
        "number too large to fit in target type" => "must be a smaller number".to_owned(),
        "i8" | "i16" | "i32" | "i64" => "must be a whole number".to_owned(),
        "a string" | "a borrowed string" => "must be a text".to_owned(),
        "a boolean" | "provided string was not `true` or `false`" => "must be true or false".to_owned(),
        "a sequence" => "must be a list".to_owned(),
        "a map" => "must be an object".to_owned(),
        expected if expected.starts_with("struct ") => "must be an object".to_owned(),
        _ => "is not as expected".to_owned(),
    };
    format!("The {what} {name} {must}.")
}

/// A name, or its beginning.
fn shortened(name: &str) -> String {
    if name.chars().count() > 40 { name.chars().take(40).chain(['…']).collect() } else { name.to_owned() }
}

/// The names between backquotes.
fn quoted(said: &str) -> Vec<&str> {
    said.split('`').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only read")]
    struct Asked {
        q: String,
        burst: Option<u32>,
        tags: Option<Vec<String>>,
        deep: Option<Deep>,
        form: Option<Form>,
        is_dry: Option<bool>,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Deep {
        count: u16,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Form {
        Csv,
        Jsonl,
    }

    #[test]
    fn what_does_not_fit_is_named_in_words_and_no_value_is_quoted() {
        for (body, words) in [
            ("\"ada\"", "The body must be a JSON object."),
            ("7", "The body must be a JSON object."),
            ("{}", "The field q is missing."),
            (r#"{"q":"a","q":"b"}"#, "The field q is there twice."),
            (r#"{"secret":1}"#, "There is no field secret. There are: q, burst, tags, deep, form, is_dry."),
            (r#"{"q":7}"#, "The field q must be a text."),
            (r#"{"q":"a","burst":"ada"}"#, "The field burst must be a whole number, 0 or more."),
            (r#"{"q":"a","burst":-1}"#, "The field burst must be a whole number, 0 or more."),
            (r#"{"q":"a","burst":1.5}"#, "The field burst must be a whole number, 0 or more."),
            (r#"{"q":"a","burst":5000000000}"#, "The field burst must be a smaller number."),
            (r#"{"burst":"ada","is_dry":7}"#, "The field burst must be a whole number, 0 or more."),
            (r#"{"q":"a","tags":{}}"#, "The field tags must be a list."),
            (r#"{"q":"a","tags":["b",7]}"#, "The field tags must be a text."),
            (
                r#"{"q":"a","burst":"x at line 7, expected a map"}"#,
                "The field burst must be a whole number, 0 or more.",
            ),
            ("[]", "The body must be a JSON object."),
            (r#"{"q":"a","deep":"x"}"#, "The field deep must be an object."),
            (r#"{"q":"a","deep":{"count":"x"}}"#, "The field count must be a whole number, 0 or more."),
            (r#"{"q":"a","form":"ada"}"#, "The field form must be one of: csv, jsonl."),
            (r#"{"q":"a","is_dry":"ada"}"#, "The field is_dry must be true or false."),
        ] {
            let json = &mut serde_json::Deserializer::from_str(body);
            let error = serde_path_to_error::deserialize::<_, Asked>(json).err().expect("it does not fit");
            assert_eq!(of_body(body.as_bytes(), &error), words, "{body}");
        }
        for (said, words) in [
            (
                "limit: invalid digit found in string",
                "The parameter limit must be a whole number, 0 or more.",
            ),
            ("unknown field `x`, expected `a` or `b`", "There is no parameter x. There are: a, b."),
            (
                "by: unknown variant `x`, expected `day` or `token`",
                "The parameter by must be one of: day, token.",
            ),
            ("missing field `days`", "The parameter days is missing."),
            ("", "The query is not as expected."),
        ] {
            assert_eq!(of_query(said), words);
        }
    }
}
