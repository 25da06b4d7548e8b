//! How much memory there is: that of the machine, or less if the control group of this process has a limit.

use std::path::Path;

/// The memory that this process may use, in bytes, as far as it can be known.
pub(crate) fn available() -> u64 {
    let of_machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| total(&text));
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_group = limit(Path::new("/sys/fs/cgroup"), &group);
    of_machine.unwrap_or(u64::MAX).min(of_group.unwrap_or(u64::MAX))
}

/// `MemTotal` of `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The least limit of the control groups that a process is in; `groups` is its `/proc/PID/cgroup`.
fn limit(root: &Path, groups: &str) -> Option<u64> {
    let read = |file: &Path| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let of_group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            "memory" => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        // A limit of a group above counts too. In a container the path may be one of the host's: its own group is the root.
        let group = root.join(path);
        group
            .ancestors()
            .take_while(|group| group.starts_with(&root))
            .filter_map(|group| read(&group.join(file)))
            .min()
    };
    groups.lines().filter_map(of_group).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let file = dir.path().join(path);
            std::fs::create_dir_all(file.parent().expect("a parent")).expect("makes");
            std::fs::write(file, text).expect("writes");
        };
        assert_eq!(limit(dir.path(), "0::/system.slice/contactd.service\n"), None);
        write("system.slice/contactd.service/memory.max", "max\n");
        assert_eq!(limit(dir.path(), "0::/system.slice/contactd.service\n"), None);
        write("system.slice/memory.max", "2000\n");
        assert_eq!(limit(dir.path(), "0::/system.slice/contactd.service\n"), Some(2_000));
        write("system.slice/contactd.service/memory.max", "1000\n");
        assert_eq!(limit(dir.path(), "0::/system.slice/contactd.service\n"), Some(1_000));
        write("memory/memory.limit_in_bytes", "500\n");
        assert_eq!(limit(dir.path(), "4:cpu:/\n3:memory:/docker/1\n0::/\n"), Some(500));
        assert_eq!(total("MemFree: 1 kB\nMemTotal:       24000 kB\n"), Some(24_576_000));
    }
}
