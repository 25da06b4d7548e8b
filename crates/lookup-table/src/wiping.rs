//! Overwriting records on disk.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::header::Header;
use crate::slot::{self, Is, SLOT, Slot};

/// Overwrites the records of these places ([`order_of_place`](crate::order_of_place)), and syncs the file. Lookups of what may
/// have been there ask the store. Doing it twice is no error. Fails with `InvalidData` if the table is damaged where it looks:
/// then it is not known what is left in it.
pub fn wipe(file: &File, orders: &[u32]) -> io::Result<()> {
    let header = Header::read(file)?;
    for section in &header.sections {
        for &order in orders {
            wipe_order(file, &header, section.place(order)..section.end(), order)?;
        }
    }
    file.sync_data()
}

fn wipe_order(file: &File, header: &Header, slots: std::ops::Range<u64>, order: u32) -> io::Result<()> {
    let mut slot: Slot = [0; SLOT];
    for at in slots {
        file.read_exact_at(&mut slot, at * SLOT as u64)?;
        match slot::read(&slot, header.seed_of(at)).ok_or(io::ErrorKind::InvalidData)? {
            Is::Empty => return Ok(()),
            Is::First if slot::order(&slot) > order => return Ok(()),
            Is::First | Is::Later if slot::order(&slot) == order => {
                file.write_all_at(&slot::wiped(header.seed_of(at)), at * SLOT as u64)?;
            }
            Is::First | Is::Later | Is::Wiped => {}
        }
    }
    Ok(())
}
