//! An export can be imported again.

use crate::fixture::PEOPLE;
use crate::service::Site;
use crate::transcript::check;

#[test]
fn an_export_imported_elsewhere_gives_the_same_export() {
    let site = Site::empty();
    site.file("people.csv", PEOPLE);
    check(&site, "export");
}
