//! The suite that every storage engine passes, and an engine in memory that passes it too.
//!
//! An engine's crate has one test file, `contactd_conformance::conformance!(opener)`, where `opener` is an async function
//! that opens a fresh, empty store behind a pointer, which may also hold what has to be removed with it. An engine that
//! cannot be opened fails; it is never skipped.
//!
//! [`Memory`] is written for tests only. It proves that the traits do not describe SQLite.

#![expect(clippy::expect_used, reason = "test code: a failed expectation is a failed test")]

mod memory;
pub mod suite;

pub use memory::Memory;

/// Makes one test of every function of the suite.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance!($open:
            local: a_lookup_returns_the_surest_then_newest_then_smallest,
            local: work_details_are_kept_and_never_returned,
            local: an_expired_detail_is_kept_and_not_returned,
            local: a_value_that_is_not_taken_gives_way_to_the_next,
            local: a_person_who_is_not_held_still_costs_one_value,
            local: the_two_kinds_are_apart,
            local: profiles_with_a_common_beginning_are_apart,
            local: renewing_shows_what_was_committed,
            details: details_are_listed_best_first,
            details: removing_removes_only_what_matches,
            details: totals_add_up,
            details: everything_is_visited_in_order_until_the_visitor_stops,
            details: a_number_or_an_address_is_found_under_every_profile,
            details: what_has_expired_or_is_too_old_is_swept_and_nothing_else,
            imports: the_same_again_changes_nothing,
            imports: a_new_date_or_confidence_updates_the_detail,
            imports: of_a_detail_given_twice_the_last_counts,
            imports: a_profile_is_counted_once_in_an_import,
            imports: the_same_value_from_two_sources_is_two_details,
            imports: an_import_that_is_dropped_never_happened,
            imports: what_is_taken_back_is_not_there_and_not_counted,
            imports: imports_into_nothing_much_and_little_do_the_same,
            imports: a_replaced_source_keeps_only_what_is_put,
            imports: a_second_import_is_refused_while_one_is_in_progress,
            imports: whoever_writes_details_during_an_import_is_told_that_the_store_is_busy,
            imports: imports_are_listed_and_can_be_undone_once,
            access: tokens_are_listed_as_they_were_made,
            access: revoking_twice_keeps_the_first_time,
            access: rotating_keeps_both_until_the_overlap_ends,
            access: rotating_an_unknown_token_makes_none,
            access: suppressing_twice_is_one_suppression,
            access: suppressions_can_be_taken_back,
            access: a_suppression_is_found_with_its_time,
            access: usage_adds_up_by_day,
            access: opt_outs_and_revocations_do_not_wait_for_an_import,
            audit: the_audit_index_takes_every_line_once,
            audit: the_journals_of_two_nodes_are_apart,
            upkeep: a_fact_is_remembered_once_and_can_be_forgotten,
            upkeep: every_change_is_noticed_and_usage_is_not_one,
            upkeep: maintenance_changes_nothing_that_is_held,
            upkeep: a_copy_has_files_and_the_sizes_are_told,
            upkeep: withdrawals_of_another_store_are_applied_with_their_times,
        );
    };
    ($open:path: $($module:ident: $case:ident,)*) => {
        $(#[tokio::test]
        async fn $case() {
            let opened = $open().await;
            $crate::suite::$module::$case(&*opened).await;
        })*
    };
}
