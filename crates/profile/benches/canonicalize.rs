//! Measures the cost of one canonicalisation: `cargo bench -p contactd-profile`

use contactd_profile::Networks;
use divan::Bencher;

fn main() {
    divan::main();
}

#[divan::bench(args = [
    "https://www.linkedin.com/in/ada-quell-1a2b3c",
    "https://linkedin.com/in/ada-quell-1a2b3c",
    "https://de.linkedin.com/in/Ada-Quell-1a2b3c/?trk=public_profile",
    "https://www.linkedin.com/in/jos%C3%A9-garc%C3%ADnuvel",
    "https://www.linkedin.com/in/示例用户-1a2b3c",
    "https://www.xing.com/profile/Mira_Quellbach2/cv",
    "https://www.linkedin.com/company/quellcorp",
    "https://evil.example/in/ada-quell",
])]
fn canonicalize(bencher: Bencher<'_, '_>, url: &str) {
    let networks = Networks::built_in();
    bencher.bench(|| networks.canonicalize(divan::black_box(url)));
}
