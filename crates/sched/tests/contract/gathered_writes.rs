//! Writes that wait for room in the drive's cache.

use crate::session::{Session, Setup, read, write};
use crate::tiny::CAPACITY;

/// A run of 300 requests with 40 held, of which two in three are reads.
fn mixed(policy: &str, caches_writes: bool) -> Session {
    let mut setup = Setup::of(policy);
    setup.belief.caches_writes = caches_writes;
    let mut session = setup.start();
    let request = |id: u64| {
        let start = id * 71 % CAPACITY;
        if id.is_multiple_of(3) { write(id, start, 1) } else { read(id, start, 1) }
    };
    (0..40).for_each(|id| session.accept(request(id)));
    let mut next = 40;
    while next < 300 && session.step() {
        while next < session.finished.len() as u64 + 40 {
            session.accept(request(next));
            next += 1;
        }
    }
    session.run_to_end();
    session
}

/// The number of writes that follow a read among the first requests, while 40 are held.
fn changes_to_writes(session: &Session) -> usize {
    let served = session.served();
    served[..260].windows(2).filter(|pair| pair[0] % 3 != 0 && pair[1] % 3 == 0).count()
}

#[test]
fn writes_go_together_where_the_drive_s_cache_is_full() {
    for policy in ["sptf-expected", "headtime"] {
        let gathered = mixed(policy, true);
        let others = mixed(policy, false);
        let (few, many) = (changes_to_writes(&gathered), changes_to_writes(&others));
        assert!(few * 3 < many, "{policy}: {few} and {many}");
        assert_eq!(gathered.finished.len(), 300, "{policy}");
    }
}

/// No request waits longer than a few rounds of the queue.
#[test]
fn writes_that_go_together_starve_no_read() {
    let session = mixed("sptf-expected", true);
    for (place, id) in session.served().into_iter().enumerate() {
        assert!(place as u64 <= id + 3 * 40, "request {id} was served as number {place}");
    }
}
