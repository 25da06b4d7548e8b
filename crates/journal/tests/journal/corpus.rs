//! The inputs of the fuzz target for segments, replayed.

#[path = "../../../../fuzz/checks/journal.rs"]
mod checks;
#[path = "../../../../fuzz/checks/seeds.rs"]
mod seeds;

#[test]
fn nothing_is_read_from_a_changed_segment_that_was_not_written() {
    let written = checks::Written::new();
    for input in seeds::inputs("journal") {
        checks::check(&written, &input);
    }
}
