//! The numbers that stand for kinds and labels in the tables.

use contactd_core::{Kind, Label};

pub(crate) const fn kind_number(kind: Kind) -> i64 {
    match kind {
        Kind::Phone => 0,
        Kind::Email => 1,
    }
}

pub(crate) const fn label_number(label: Label) -> i64 {
    match label {
        Label::Personal => 0,
        Label::Work => 1,
    }
}

pub(crate) const fn kind(number: i64) -> Kind {
    if number == kind_number(Kind::Phone) { Kind::Phone } else { Kind::Email }
}

pub(crate) const fn label(number: i64) -> Label {
    if number == label_number(Label::Personal) { Label::Personal } else { Label::Work }
}
