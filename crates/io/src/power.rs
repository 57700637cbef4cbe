//! The power state of a drive, asked for without waking it.
//!
//! ATA drives answer CHECK POWER MODE, which travels in ATA PASS-THROUGH (16); the answer is the
//! sector count of the status return descriptor. SCSI drives answer REQUEST SENSE with a low power
//! condition (additional sense 5Eh), or that they are stopped (04h, 02h). Neither command starts
//! the spindle. A drive in ATA *sleep* mode, which `hdparm -Y` sets, hears no command before a
//! reset, and wakes.

use std::os::fd::OwnedFd;

use crate::block_device::{BlockDevice, SystemPaths, word};
use crate::sys;

/// The power state of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// The platters turn, or the drive cannot tell.
    Awake,
    /// The platters stand; the next read or write waits for them, for seconds.
    Standby,
}

/// A drive that can be asked for its power state.
pub trait PowerProbe: Send + Sync {
    /// Asks the drive. May wait for commands at the drive; must not be called on its engine's
    /// thread.
    fn state(&self) -> PowerState;
}

/// The protocol of a raw device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Ata,
    Scsi,
}

/// A raw block device.
pub(crate) struct RawPower {
    file: OwnedFd,
    protocol: Protocol,
}

impl RawPower {
    /// The device in `file`, if it speaks SCSI or ATA and answers; the log tells if it refuses.
    pub(crate) fn of(device: &BlockDevice, system: &SystemPaths, file: OwnedFd) -> Option<Self> {
        let directory = device.disk_directory(system).join("device");
        directory.join("scsi_disk").exists().then_some(())?;
        let is_ata = word(&directory.join("vendor")).is_some_and(|vendor| vendor == "ATA")
            || directory.join("vpd_pg89").exists();
        let protocol = if is_ata { Protocol::Ata } else { Protocol::Scsi };
        let power = Self { file, protocol };
        match power.ask() {
            Ok(state) => tracing::info!(device = device.name, ?state, "power state"),
            Err(error) => {
                tracing::info!(device = device.name, %error, "the drive does not tell its power \
                    state (SATA drives need CAP_SYS_RAWIO), so that scans wake it");
                return None;
            }
        }
        Some(power)
    }

    fn ask(&self) -> std::io::Result<PowerState> {
        match self.protocol {
            Protocol::Ata => {
                let answer = sys::scsi(&self.file, &CHECK_POWER_MODE, &mut [], TIMEOUT_MS)?;
                Ok(of_ata(&answer.sense))
            }
            // The answer of REQUEST SENSE is its data.
            Protocol::Scsi => {
                let mut data = [0; SENSE_DATA];
                let answer = sys::scsi(&self.file, &REQUEST_SENSE, &mut data, TIMEOUT_MS)?;
                Ok(of_sense(&data[..answer.data_len]))
            }
        }
    }
}

impl PowerProbe for RawPower {
    fn state(&self) -> PowerState {
        self.ask().unwrap_or(PowerState::Awake)
    }
}

/// Reads the answer to CHECK POWER MODE from sense bytes.
fn of_ata(sense: &[u8]) -> PowerState {
    let byte = |at: usize| sense.get(at).copied();
    let count = match byte(0).map(|code| code & 0x7f) {
        // Descriptors; that of an ATA status return has code 09h and 12 more bytes.
        Some(0x72) if byte(8) == Some(0x09) && byte(9) >= Some(0x0c) => byte(13),
        // Fixed: error, status, device and count in place of the information.
        Some(0x70) => byte(6),
        _ => None,
    };
    match count {
        // Standby_z and standby_y, and spun down with a cache in flash.
        Some(0x00 | 0x01 | 0x40) => PowerState::Standby,
        _ => PowerState::Awake,
    }
}

/// Reads the power condition from sense data, fixed or as descriptors.
fn of_sense(sense: &[u8]) -> PowerState {
    let byte = |at: usize| sense.get(at).copied();
    let (key, code) = match byte(0).map(|code| code & 0x7f) {
        Some(0x70) => (byte(2), byte(12).zip(byte(13))),
        Some(0x72) => (byte(1), byte(2).zip(byte(3))),
        _ => return PowerState::Awake,
    };
    match (key.map(|key| key & 0x0f), code) {
        // Standby_z and standby_y, by timer or by command.
        (_, Some((0x5e, 0x02 | 0x04 | 0x09 | 0x0a))) => PowerState::Standby,
        // Not ready: stopped by START STOP UNIT.
        (Some(0x02), Some((0x04, 0x02))) => PowerState::Standby,
        _ => PowerState::Awake,
    }
}

/// ATA PASS-THROUGH (16), no data, with the registers returned; CHECK POWER MODE.
const CHECK_POWER_MODE: [u8; 16] = [0x85, 3 << 1, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xe5, 0];
/// REQUEST SENSE, in the fixed form.
const REQUEST_SENSE: [u8; 6] = [0x03, 0, 0, 0, SENSE_DATA as u8, 0];
/// The bytes that REQUEST SENSE may return; those read here are the first 14.
const SENSE_DATA: usize = 32;
/// A drive that starts answers late (guess: twice the time to spin up).
const TIMEOUT_MS: u32 = 20_000;

#[cfg(test)]
mod tests {
    use super::*;
    use PowerState::{Awake, Standby};

    #[test]
    fn the_sector_count_of_check_power_mode_tells_the_state() {
        for (count, state) in
            [(0x00, Standby), (0x01, Standby), (0x40, Standby), (0x80, Awake), (0x82, Awake)]
        {
            let mut descriptor = [0; 22];
            descriptor[..4].copy_from_slice(&[0x72, 0x01, 0x00, 0x1d]);
            descriptor[7] = 14;
            descriptor[8..10].copy_from_slice(&[0x09, 0x0c]);
            descriptor[13] = count;
            descriptor[21] = 0x50;
            assert_eq!(of_ata(&descriptor), state, "{count:#x} in a descriptor");
            let mut fixed = [0; 18];
            fixed[0] = 0xf0;
            fixed[6] = count;
            assert_eq!(of_ata(&fixed), state, "{count:#x} in fixed sense");
        }
        assert_eq!(of_ata(&[]), Awake);
        assert_eq!(of_ata(&[0x72, 5, 0x20, 0, 0, 0, 0, 0]), Awake, "an illegal request");
    }

    #[test]
    fn sense_data_tells_low_power_conditions_and_a_stopped_unit() {
        for (key, code, qualifier, state) in [
            (0x00, 0x00, 0x00, Awake),
            (0x00, 0x5e, 0x01, Awake),
            (0x00, 0x5e, 0x02, Standby),
            (0x00, 0x5e, 0x04, Standby),
            (0x00, 0x5e, 0x05, Awake),
            (0x00, 0x5e, 0x0a, Standby),
            (0x02, 0x04, 0x02, Standby),
            (0x02, 0x04, 0x01, Awake),
        ] {
            let mut fixed = [0; 18];
            (fixed[0], fixed[2], fixed[12], fixed[13]) = (0x70, key, code, qualifier);
            assert_eq!(of_sense(&fixed), state, "{fixed:x?}");
            assert_eq!(of_sense(&[0x72, key, code, qualifier, 0, 0, 0, 0]), state);
        }
        assert_eq!(of_sense(&[]), Awake);
    }
}
