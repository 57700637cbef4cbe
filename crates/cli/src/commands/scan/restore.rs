//! `headtime scan restore`: an image of a backup that went into a pipe.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use headtime_io::files::rename_durably;
use headtime_tasks::record::{BackupRecord, RecordReader};
use serde::Serialize;

use super::Restore;
use headtime_console::Failure;
use headtime_console::output::{print, print_json};

#[derive(Serialize)]
struct Restored {
    target: String,
    bytes: u64,
    /// First byte and how many, as they could not be read when the backup was made.
    unreadable: Vec<(u64, u64)>,
}

/// Makes an image of a stream.
pub(super) fn run(restore: &Restore) -> Result<(), Failure> {
    let restored = restore_image(&restore.stream, &restore.image)?;
    if restore.json {
        return print_json(&restored);
    }
    let mut text =
        format!("{}: {} bytes of {}\n", restore.image.display(), restored.bytes, restored.target);
    for (offset, len) in &restored.unreadable {
        text.push_str(&format!(
            "could not be read when the backup was made, and is zeroes: {len} \
            bytes from byte {offset}\n"
        ));
    }
    print(&text)
}

/// Makes the image under another name, so that half of one is never taken for a whole.
fn restore_image(stream: &Path, image: &Path) -> Result<Restored, Failure> {
    let standard_input = stream == Path::new("-");
    let name =
        if standard_input { "standard input".to_owned() } else { stream.display().to_string() };
    let mut from: Box<dyn std::io::Read> = if standard_input {
        Box::new(std::io::stdin().lock())
    } else {
        let opened = File::open(stream)
            .with_context(|| format!("{} cannot be opened", stream.display()))
            .map_err(Failure::Usage)?;
        Box::new(opened)
    };
    if image.exists() {
        let there = anyhow::anyhow!("{} is there already; name another file", image.display());
        return Err(Failure::Usage(there));
    }
    let mut part = image.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let restored = restore_to(&part, image, &name, &mut from);
    if std::fs::metadata(&part).is_ok_and(|written| restored.is_err() && written.len() == 0) {
        // Nothing of it is worth keeping.
        let _ = std::fs::remove_file(&part);
    }
    Ok(restored?)
}

/// Makes the image as `part`, which then gets the name `image`.
fn restore_to(
    part: &Path,
    image: &Path,
    name: &str,
    from: &mut dyn std::io::Read,
) -> anyhow::Result<Restored> {
    let cannot_write = || format!("{} cannot be written", part.display());
    let to = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(part)
        .with_context(cannot_write)?;
    let mut reader = RecordReader::default();
    let mut restored = Restored { target: String::new(), bytes: 0, unreadable: Vec::new() };
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = from.read(&mut buffer).with_context(|| format!("{name} cannot be read"))?;
        if read == 0 {
            break;
        }
        reader.feed(&buffer[..read]);
        while let Some(record) = reader.next().with_context(|| name.to_owned())? {
            match record {
                BackupRecord::Header { target, bytes, .. } => {
                    to.set_len(bytes).with_context(cannot_write)?;
                    (restored.target, restored.bytes) = (target, bytes);
                }
                BackupRecord::Data { offset, bytes } => {
                    to.write_all_at(&bytes, offset).with_context(cannot_write)?
                }
                BackupRecord::Unreadable { offset, len } => restored.unreadable.push((offset, len)),
                // The file is zeroes where nothing is written.
                BackupRecord::Zeroes { .. } | BackupRecord::Index | BackupRecord::End => {}
            }
        }
    }
    anyhow::ensure!(
        !restored.target.is_empty(),
        "{name} ends before a backup begins; expected the complete output of `headtime scan start \
            --task backup`"
    );
    anyhow::ensure!(
        reader.is_complete(),
        "{name} is incomplete, so {} is not a backup; use the stream from its beginning to its end",
        part.display()
    );
    to.sync_all().with_context(cannot_write)?;
    rename_durably(part, image).with_context(cannot_write)?;
    restored.unreadable.sort_unstable();
    Ok(restored)
}
