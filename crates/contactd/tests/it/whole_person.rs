//! Opt-outs and erasures by number or address, of people who are on file and of people who are not.

use crate::service::Site;
use crate::transcript::{check, check_with_people, transcripts};

transcripts! {
    fn an_opt_out_by_address_names_the_profiles_and_what_of_theirs_is_still_disclosed() { check_with_people("whole_person") }
    fn somebody_who_is_not_on_file_is_opted_out_for_the_future_and_that_is_said() { check(&Site::with_people(), "not_on_file") }
    fn an_erasure_by_address_erases_everybody_who_has_it_and_names_who_shares_something() { check_with_people("erase_by_address") }
    fn more_than_ten_profiles_are_opted_out_or_erased_only_with_yes() { check_with_people("more_than_ten") }
}
