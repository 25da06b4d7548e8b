//! `GET /metrics`, in the Prometheus text format.

use std::fmt::Write;

use contactd_core::metrics::{Family, MetricKind, MetricValue};

use crate::Admin;

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics, including the kernel's figures about this process.
pub(crate) async fn page(admin: &Admin) -> String {
    let mut page = String::new();
    for measured in &admin.measured {
        for family in measured.families().await {
            show(&mut page, &family);
        }
    }
    for family in process() {
        show(&mut page, &family);
    }
    page
}

fn show(page: &mut String, family: &Family) {
    let name = family.name;
    let kind = match family.kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    // Writing to a string cannot fail.
    let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", family.help);
    for sample in &family.samples {
        let labels: Vec<String> =
            sample.labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(page, "{name}{}{labels} {}", sample.suffix, sample.value);
    }
}

/// A label value, escaped.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn process() -> Vec<Family> {
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    let build = Family::new("contactd_build_info", MetricKind::Gauge, "The version that is running.");
    let mut families = vec![build.with(&version, 1)];
    if let Some((cpu_nanos, resident)) = usage() {
        let mut cpu = Family::new("process_cpu_seconds_total", MetricKind::Counter, "User and system time.");
        cpu.push("", &[], MetricValue::Nanos(cpu_nanos));
        families.extend([cpu, Family::gauge("process_resident_memory_bytes", "Resident memory.", resident)]);
    }
    if let Ok(entries) = std::fs::read_dir("/proc/self/fd") {
        let count = entries.count() as u64;
        families.push(Family::gauge("process_open_fds", "Open file descriptors.", count));
    }
    families
}

/// The kernel's figures about this process: nanoseconds of CPU time, and bytes in memory. None if there is no `/proc`.
fn usage() -> Option<(u64, u64)> {
    // User and system time are fields 14 and 15 (11 and 12 after the command name), in ticks. Linux reports
    // 100 ticks per second to programs.
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
    Some(((ticks(11)? + ticks(12)?) * 10_000_000, kib * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_shown_in_the_prometheus_format() {
        let mut page = String::new();
        show(&mut page, &Family::counter("a_total", "All of it.", 7));
        let mut histogram = Family::new("b_seconds", MetricKind::Histogram, "How long.");
        histogram.push("_sum", &[("of", "a\"\\\n")], MetricValue::Nanos(1_500_000_000));
        show(&mut page, &histogram);
        assert_eq!(
            page,
            "# HELP a_total All of it.\n# TYPE a_total counter\na_total 7\n\
             # HELP b_seconds How long.\n# TYPE b_seconds histogram\nb_seconds_sum{of=\"a\\\"\\\\\\n\"} 1.5\n"
        );
    }
}
