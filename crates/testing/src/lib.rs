//! Everything that only tests use: the suite that every storage engine passes, a PostgreSQL server, and random numbers that can
//! be repeated.
//!
//! The crate of an engine has one test file, `contactd_testing::conformance!(opener)`, or `local_conformance!` if lookups
//! read its files. `opener` is an async
//! function that opens a new, empty store and returns it behind a pointer, which may also own what must be removed
//! with it. An engine that cannot be opened fails its tests; it is never skipped.

#![expect(clippy::expect_used, reason = "test code: a failed expectation is a failed test")]

mod authenticator;
mod dice;
mod in_temp_dir;
mod postgres;
pub mod suite;

pub use authenticator::authenticator_code;
pub use dice::Dice;
pub use in_temp_dir::InTempDir;
pub use postgres::{TestServer, program, psql};

/// Creates one test for every function of the suite, for an engine that is read by lookups.
#[macro_export]
macro_rules! local_conformance {
    ($open:path) => {
        $crate::conformance!($open);
        $crate::lookup_conformance!($open);
    };
}

/// Creates one test for every function of the suite about lookups.
#[macro_export]
macro_rules! lookup_conformance {
    ($open:path) => {
        $crate::conformance!($open:
            local: a_lookup_prefers_confidence_then_date_then_the_smallest_value,
            local: work_details_are_kept_and_never_returned,
            local: an_expired_detail_is_kept_and_not_returned,
            local: if_a_value_is_not_taken_the_next_one_is_offered,
            local: a_person_who_is_not_held_still_costs_one_value,
            local: phone_numbers_and_addresses_are_separate,
            local: profiles_with_a_common_prefix_are_separate,
            local: after_renewing_every_lookup_sees_what_was_committed,
        );
    };
}

/// Creates one test for every function of the suite, except those about lookups.
#[macro_export]
macro_rules! conformance {
    ($open:path) => {
        $crate::conformance!($open:
            details: details_are_listed_best_first,
            details: removing_removes_only_what_matches,
            details: totals_add_up,
            details: everything_is_visited_in_order_until_the_visitor_stops,
            details: a_number_or_an_address_is_found_under_every_profile,
            details: people_are_found_by_parts_of_their_slugs,
            details: a_sweep_removes_only_expired_and_too_old_details,
            details: a_clock_that_is_ahead_removes_nothing_too_early_where_the_store_has_one_too,
            details: the_details_that_end_next_are_listed_by_source,
            imports: importing_the_same_again_changes_nothing,
            imports: a_new_date_or_confidence_updates_the_detail,
            imports: addresses_that_differ_only_in_case_are_one_detail,
            imports: a_profile_is_counted_once_in_an_import,
            imports: a_dropped_import_changes_nothing,
            imports: values_taken_back_are_neither_stored_nor_counted,
            imports: taking_back_the_last_detail_of_someone_who_was_held_is_not_one_new_profile_less,
            imports: large_and_small_imports_do_the_same,
            imports: a_replaced_source_keeps_only_what_is_put,
            imports: a_replaced_source_tells_how_much_it_loses,
            imports: a_source_has_at_most_twenty_values_of_a_kind_for_a_profile,
            imports: a_second_import_is_refused_while_one_is_in_progress,
            imports: other_writers_of_details_get_busy_during_an_import,
            imports: imports_are_listed_and_can_be_undone_once,
            undo: undoing_a_replacement_leaves_everything_as_before,
            undo: imports_of_a_source_are_undone_newest_first,
            undo: what_is_gone_since_is_not_restored,
            undo: what_is_kept_for_undo_counts_as_held,
            undo: what_is_kept_for_undo_is_forgotten_in_time,
            access: tokens_are_listed_as_they_were_created,
            access: revoking_twice_keeps_the_first_time,
            access: rotating_keeps_both_until_the_overlap_ends,
            access: rotating_continues_what_has_ended_and_nothing_unknown,
            access: a_name_that_another_family_has_or_had_is_refused,
            access: an_update_changes_what_it_names,
            access: a_new_quota_is_for_the_live_tokens_of_the_family,
            access: hits_of_a_family_add_up,
            access: suppressing_twice_is_one_suppression,
            access: suppressions_can_be_removed,
            access: a_suppression_is_found_with_its_time,
            access: usage_adds_up_by_day,
            access: opt_outs_and_revocations_do_not_wait_for_an_import,
            accounts: a_user_is_found_as_it_was_created_and_a_name_is_given_once,
            accounts: a_change_of_a_user_changes_what_it_names,
            accounts: the_last_admin_stays_enabled,
            accounts: an_admin_token_is_found_by_its_hash,
            accounts: accounts_become_as_they_are_in_another_store,
            accounts: accounts_and_state_are_those_that_were_stored,
            accounts: rows_are_stored_as_was_decided_on_them,
            audit: the_audit_index_adds_every_line_once,
            audit: the_journals_of_two_nodes_are_separate,
            audit: values_ids_counts_and_actions_are_indexed,
            audit: lines_are_visited_newest_first,
            copies: a_copy_of_a_journal_has_every_line_once_or_there_is_none,
            copies: a_list_is_found_by_its_digests_or_none_is_kept,
            outbox: every_change_stores_its_entry_with_its_counts,
            outbox: nothing_removed_is_no_entry_and_entries_can_be_removed,
            maintenance: a_fact_is_remembered_once_and_can_be_forgotten,
            maintenance: every_change_is_detected_and_usage_is_not_a_change,
            maintenance: maintenance_changes_no_details,
            maintenance: a_copy_has_files_and_the_sizes_are_reported,
            maintenance: withdrawals_of_another_store_are_applied_with_their_times,
            maintenance: a_token_gets_the_earlier_end_and_the_fewer_scopes_of_another_store,
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
