//! Reading ahead under an executor, with a limit on how long a read may take.
//!
//! `cargo run --release --example embed_async -p headtime-io`. tokio here; nothing in the interface
//! depends on which executor it is.

use std::time::Duration;

use bytes::Bytes;
use headtime_io::{Drive, DriveOptions, Io, Locator};
use tokio::time::timeout;

const BLOCK: u64 = 256 << 10;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let locator: Locator =
        format!("emulated:nearline-20tb?backing={}", directory.path().join("drive.img").display())
            .parse()?;
    let drive = Drive::open(&locator, DriveOptions::default())?;
    let handle = drive.handle();
    let block = |number: u64| handle.extent_of_bytes(number * BLOCK, BLOCK);

    // All at once: the scheduler sees them together and puts them in the order that is best for the
    // drive.
    let mut writes = Vec::new();
    for number in 0..64 {
        let data = Bytes::from(vec![number as u8; BLOCK as usize]);
        writes.push(handle.start_when_room(Io::write(block(number)?, data)).await?);
    }
    for write in writes {
        write.await.result?;
    }
    handle.start(Io::flush())?.await.result?;

    // Two reads ahead; one that takes too long is taken back, so that the drive does not spend time
    // on it.
    let (mut in_time, mut too_late) = (0, 0);
    let read = |number| {
        Ok::<_, Box<dyn std::error::Error>>(
            handle
                .start(Io::read(block(number)?).deadline(Duration::from_millis(30)))?
                .cancel_on_drop(),
        )
    };
    let mut ahead = [read(0)?, read(1)?];
    for number in 0..64 {
        let next = std::mem::replace(&mut ahead[number % 2], read((number as u64 + 2) % 64)?);
        match timeout(Duration::from_millis(30), next).await {
            Ok(done) => {
                assert_eq!(done.result?[0], number as u8);
                in_time += 1;
            }
            Err(_) => too_late += 1,
        }
    }
    println!("{in_time} blocks in time, {too_late} given up");
    Ok(())
}
