//! The report as one self-contained HTML page that prints well, written for the person it is about.

use std::fmt::Write;

use contactd_core::{Kind, Label, Timestamp};
use contactd_services::views::{AccessReport, Disclosure, DisclosuresOf, HeldDetail};

const STYLE: &str = concat!(include_str!("../../../assets/base.css"), "\n", include_str!("report_page.css"));

/// The page for the person whom a report is about. Long lists are summed up unless `all` is wanted.
pub fn render_report(report: &AccessReport, all: bool) -> String {
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
    held(&mut page, report, all);
    disclosures(&mut page, report, all);
    page.push_str("</main>\n</body>\n</html>");
    page
}

fn state(page: &mut String, report: &AccessReport) {
    let _ = match report.suppression.since {
        Some(since) if report.suppression.is_of_the_value_only => writeln!(
            page,
            "<p class=\"opt-out-state opted-out\"><strong>{} is opted out</strong>, since {} UTC. We have not given it to anyone since then, and \
             we will not, even if we receive it again under another profile.</p>",
            escape(&report.subject),
            moment(since)
        ),
        Some(since) => writeln!(
            page,
            "<p class=\"opt-out-state opted-out\"><strong>You have opted out</strong>, since {} UTC. We have not given your details to \
             anyone since then, and we will not, whatever others send us later.</p>",
            moment(since)
        ),
        None if report.suppression.is_of_the_value_only => writeln!(
            page,
            "<p class=\"opt-out-state\"><strong>{} is not opted out.</strong> Would you like it to be? Just ask us, and from that \
             moment on we will not give it to anyone.</p>",
            escape(&report.subject)
        ),
        None if report.held.iter().any(|held| held.is_suppressed) => writeln!(
            page,
            "<p class=\"opt-out-state\"><strong>Some of your details are opted out</strong>, and we do not give those to anyone; see below. Would you \
             like to opt out completely? Just ask us.</p>"
        ),
        None => writeln!(
            page,
            "<p class=\"opt-out-state\"><strong>You have not opted out.</strong> Would you like to? Just ask us, and from that moment \
             on we will not give your details to anyone.</p>"
        ),
    };
}

fn held(page: &mut String, report: &AccessReport, all: bool) {
    page.push_str("<h2>What we hold</h2>\n");
    if report.is_about_the_value_only {
        let _ = writeln!(
            page,
            "<p>We hold this in {} different profiles, so this page is only about this one detail. To see everything we hold \
             about you, please ask us again with the web address of your profile.</p>",
            report.profiles.len()
        );
    }
    if report.held.is_empty() {
        page.push_str("<p>We do not hold a phone number or an e-mail address for you.</p>\n");
        return;
    }
    let several = report.profiles.len() > 1 && !report.is_about_the_value_only;
    let listed = report.listed_details(all);
    for held in listed {
        detail(page, held, several);
    }
    if listed.len() < report.held.len() {
        let _ = writeln!(page, "<p>And {} more like these.</p>", report.held.len() - listed.len());
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
        line("Profile", &escape(&held.profile_url));
    }
    line("Where we got it", &escape(&held.source));
    line("Last known to be correct", &held.observed_at.map_or("not known".to_owned(), day));
    line("Why we may hold it", &held.basis.as_deref().map_or("not recorded".to_owned(), escape));
    let until = match held.expires_at {
        Some(at) if held.is_expired => {
            format!(
                "{}. This date has passed: we no longer give it to anyone, and we will delete it",
                day(at)
            )
        }
        Some(at) => day(at),
        None => "no end date is set".to_owned(),
    };
    let kept = held.kept_for_undo_until.map(day);
    line("We keep it until", kept.as_deref().unwrap_or(&until));
    if kept.is_some() {
        line("Given to others", "no, it is a former entry that we keep only to be able to correct a mistake");
    } else if held.is_suppressed {
        line("Given to others", "no, because of an opt-out");
    } else if held.label == Label::Work {
        line("Given to others", "no, we only give out personal details");
    }
    page.push_str("</dl>\n");
}

fn disclosures(page: &mut String, report: &AccessReport, all: bool) {
    page.push_str("<h2>Who received it</h2>\n");
    let since = report.disclosures_known_since.map(moment);
    if report.disclosures_are_of == DisclosuresOf::Unknown && report.disclosures.is_empty() {
        page.push_str(
            "<p>We cannot tell from this alone, because we hold it in no profile now. Please ask us again with the web address of \
             your profile.</p>\n",
        );
    } else if report.disclosures.is_empty() {
        let what = match report.disclosures_are_of {
            DisclosuresOf::Profile => "your phone number or e-mail address from us",
            _ => "anything from us of the profile in which we hold it now",
        };
        let _ = match &since {
            Some(since) => {
                writeln!(page, "<p>Nobody has received {what} since {since} UTC, when our records begin.</p>")
            }
            None => writeln!(page, "<p>We have no records of who received {what}.</p>"),
        };
    } else {
        recipients(page, report);
        each_time(page, report, all);
    }
    if report.requests_without_result > 0 {
        let _ = writeln!(
            page,
            "<p>Other requests about you, to which we gave no details: {}.</p>",
            report.requests_without_result
        );
    }
    if let Some(since) = since.filter(|_| !report.disclosures.is_empty()) {
        let _ = writeln!(page, "<p class=\"note\">Our records of recipients begin on {since} UTC.</p>");
    }
}

/// What each recipient received, how often, and when first and last.
fn recipients(page: &mut String, report: &AccessReport) {
    for recipient in &report.recipients {
        let _ = writeln!(page, "<h3>{}</h3>\n<ul>", escape(&recipient.token));
        for detail in &recipient.details {
            let what = what(detail.operation, detail.value.as_deref(), detail.is_value_recorded);
            let (first, last) = (moment(detail.first_at), moment(detail.last_at));
            let _ = match detail.times {
                1 => writeln!(page, "<li>{what}: once, on {first} UTC</li>"),
                times => {
                    writeln!(page, "<li>{what}: {times} times, first on {first} UTC, last on {last} UTC</li>")
                }
            };
        }
        page.push_str("</ul>\n");
    }
}

/// Every disclosure, or how many there were.
fn each_time(page: &mut String, report: &AccessReport, all: bool) {
    page.push_str("<h3>Each time</h3>\n");
    let Some(each) = report.listed_disclosures(all) else {
        let _ = writeln!(
            page,
            "<p>{} times in total. Would you like the list of each time? Just ask us.</p>",
            report.disclosures.len()
        );
        return;
    };
    page.push_str(
        "<table>\n<thead><tr><th>When (UTC)</th><th>What</th><th>Recipient</th></tr></thead>\n<tbody>\n",
    );
    for Disclosure { time, operation, token, value, is_value_recorded, .. } in each {
        let _ = writeln!(
            page,
            "<tr><td class=\"when\">{}</td><td>{}</td><td>{}</td></tr>",
            moment(*time),
            what(*operation, value.as_deref(), *is_value_recorded),
            escape(token)
        );
    }
    page.push_str("</tbody>\n</table>\n");
}

/// What was given.
fn what(kind: Kind, value: Option<&str>, is_recorded: bool) -> String {
    let kind = if kind == Kind::Phone { "Phone number" } else { "E-mail address" };
    match value {
        Some(value) => format!("{kind} {}", escape(value)),
        None if is_recorded => format!("{kind} that we no longer hold"),
        None => kind.to_owned(),
    }
}

/// The date of a time in UTC, such as 1 May 2026.
fn day(at: Timestamp) -> String {
    at.formatted("%-d %B %Y")
}

/// The date and time in UTC, to the minute.
fn moment(at: Timestamp) -> String {
    at.formatted("%-d %B %Y, %H:%M")
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            // Remove characters that change the direction of the text around them.
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
