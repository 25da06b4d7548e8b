//! Who runs a command.

use contactd_core::{Actor, Via};

/// The user who runs this process: the user name, or the user id if the name is not known.
pub(crate) fn of_this_process() -> Actor {
    Actor::new(&of_user(rustix::process::getuid().as_raw()), Via::CommandLine)
}

/// The name of a user, or the user id if the name is not known.
pub(crate) fn of_user(uid: u32) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    name_of(uid, &users).unwrap_or_else(|| format!("uid {uid}"))
}

fn name_of(uid: u32, users: &str) -> Option<String> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, number) = (fields.next()?, fields.nth(1)?);
        (number == uid.to_string() && !name.is_empty()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_name_if_the_system_knows_it() {
        let users = "root:x:0:0:root:/root:/bin/bash\nolga:x:1000:1000::/home/olga:/bin/sh\n:x:7:7:::\n";
        assert_eq!(name_of(1000, users).as_deref(), Some("olga"));
        assert_eq!(name_of(0, users).as_deref(), Some("root"));
        assert_eq!((name_of(7, users), name_of(100, users)), (None, None));
    }
}
