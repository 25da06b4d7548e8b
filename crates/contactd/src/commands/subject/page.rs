//! The report as one page that needs nothing else and prints well, in words for the person who asked.

use std::fmt::Write;

use contactd_core::services::{AccessReport, Disclosure, HeldDetail};
use contactd_core::{Kind, Label, Timestamp};

const STYLE: &str = include_str!("page.css");

pub(crate) fn render(report: &AccessReport) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"robots\" content=\"noindex\">\n<title>What we hold about you</title>\n<style>\n{STYLE}</style>\n\
         </head>\n<body>\n<main>\n<h1>What we hold about you, and who received it</h1>\n\
         <p class=\"about\">About {}, as of {} UTC</p>\n",
        escape(&report.subject),
        moment(report.generated_at)
    );
    state(&mut page, report);
    held(&mut page, report);
    disclosures(&mut page, report);
    page.push_str("</main>\n</body>\n</html>");
    page
}

fn state(page: &mut String, report: &AccessReport) {
    let _ = match report.suppression.since {
        Some(since) if report.suppression.is_of_the_value_only => writeln!(
            page,
            "<p class=\"state out\"><strong>{} has opted out</strong>, since {} UTC. It has been given to nobody since then, and \
             will be to nobody, under whichever profile we may receive it again.</p>",
            escape(&report.subject),
            moment(since)
        ),
        Some(since) => writeln!(
            page,
            "<p class=\"state out\"><strong>You have opted out</strong>, since {} UTC. Nothing about you has been given to \
             anyone since then, and nothing will be, whatever we receive from others later.</p>",
            moment(since)
        ),
        None if report.suppression.is_of_the_value_only => writeln!(
            page,
            "<p class=\"state\"><strong>{} has not opted out.</strong> If you ask us to, it will be given to nobody any more, \
             from that moment on.</p>",
            escape(&report.subject)
        ),
        None => writeln!(
            page,
            "<p class=\"state\"><strong>You have not opted out.</strong> If you ask us to, nothing about you will be given \
             to anyone any more, from that moment on.</p>"
        ),
    };
}

fn held(page: &mut String, report: &AccessReport) {
    page.push_str("<h2>What we hold</h2>\n");
    if report.is_about_the_value_only {
        let _ = writeln!(
            page,
            "<p>We hold this under {} different profiles, so this page is about it only. Ask with the address of your \
             profile for everything about you.</p>",
            report.profiles.len()
        );
    }
    if report.held.is_empty() {
        page.push_str("<p>We hold no phone number and no e-mail address of yours.</p>\n");
        return;
    }
    let several = report.profiles.len() > 1 && !report.is_about_the_value_only;
    for held in &report.held {
        detail(page, held, several);
    }
}

fn detail(page: &mut String, held: &HeldDetail, with_profile: bool) {
    let what = match (held.kind, held.label) {
        (Kind::Phone, Label::Work) => "Work phone number",
        (Kind::Phone, Label::Personal) => "Personal phone number",
        (Kind::Email, Label::Work) => "Work e-mail address",
        (Kind::Email, Label::Personal) => "Personal e-mail address",
    };
    let _ = writeln!(
        page,
        "<dl class=\"detail\"><dt>{what}</dt><dd class=\"value\">{}</dd>",
        escape(&held.value)
    );
    let mut line = |name: &str, text: &str| {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{text}</dd>");
    };
    if with_profile {
        line("Under the profile", &escape(&held.profile_url));
    }
    line("Where we have it from", &escape(&held.source));
    line("Last known to be right", &held.observed_at.map_or("not known".to_owned(), day));
    line("Why we may hold it", &held.basis.as_deref().map_or("not recorded".to_owned(), escape));
    let until = match held.expires_at {
        Some(at) if held.is_expired => {
            format!("{}, which is over: it is given to nobody and will be removed", day(at))
        }
        Some(at) => day(at),
        None => "no date is set".to_owned(),
    };
    line("We keep it until", &until);
    if held.is_suppressed {
        line("Given to others", "to nobody: you have opted out");
    } else if held.label == Label::Work {
        line("Given to others", "never: only personal details are");
    }
    page.push_str("</dl>\n");
}

fn disclosures(page: &mut String, report: &AccessReport) {
    page.push_str("<h2>Who received it</h2>\n");
    let since = report.disclosures_known_since.map(moment);
    if report.disclosures.is_empty() {
        let what = if report.is_about_the_value_only {
            "it"
        } else {
            "a phone number or an e-mail address of yours"
        };
        let _ = match &since {
            Some(since) => writeln!(
                page,
                "<p>Nobody has received {what} from us since {since} UTC, when our record begins.</p>"
            ),
            None => writeln!(page, "<p>We have no record of who has received {what} from us.</p>"),
        };
    } else {
        if report.is_about_the_value_only {
            page.push_str(
                "<p>What was given out of these profiles. Where one of them has several, it may have been another.</p>\n",
            );
        }
        page.push_str(
            "<table>\n<thead><tr><th>When (UTC)</th><th>What</th><th>Recipient</th></tr></thead>\n<tbody>\n",
        );
        for Disclosure { time, operation, token, .. } in &report.disclosures {
            let what = if *operation == Kind::Phone { "Phone number" } else { "E-mail address" };
            let _ = writeln!(
                page,
                "<tr><td class=\"when\">{}</td><td>{what}</td><td>{}</td></tr>",
                moment(*time),
                escape(token)
            );
        }
        page.push_str("</tbody>\n</table>\n");
    }
    if report.requests_without_result > 0 {
        let _ = writeln!(
            page,
            "<p>{} further requests about you were answered with nothing.</p>",
            report.requests_without_result
        );
    }
    if let Some(since) = since.filter(|_| !report.disclosures.is_empty()) {
        let _ = writeln!(page, "<p class=\"small\">Recipients are recorded since {since} UTC.</p>");
    }
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The day of a time in UTC, as people write it.
fn day(at: Timestamp) -> String {
    let text = at.to_string();
    let date = text.split('T').next().unwrap_or(&text);
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next(), parts.next(), parts.next());
    let month = month
        .and_then(|month| month.parse::<usize>().ok())
        .and_then(|month| MONTHS.get(month.checked_sub(1)?));
    match (day, month, year) {
        (Some(day), Some(month), Some(year)) => format!("{} {month} {year}", day.trim_start_matches('0')),
        _ => date.to_owned(),
    }
}

/// A time in UTC, to the minute.
fn moment(at: Timestamp) -> String {
    let text = at.to_string();
    let clock = text.split_once('T').and_then(|(_, clock)| clock.get(..5)).unwrap_or_default();
    format!("{}, {clock}", day(at))
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // What would turn the text around it about.
            '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => {}
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
