//! The kernel's settings of a block device: options, changes, their restoration after a crash,
//! and warnings.

mod hindrances;
mod knob_state;
mod knobs;
mod options;

pub use hindrances::KernelWatch;
pub use knob_state::KnobStateError;
pub(crate) use knobs::KnobGuard;
pub use knobs::{
    KERNEL_KNOBS, KernelKnob, KnobOutcome, KnobReport, KnobRestored, plan_knobs, restore_knobs,
};
pub use options::{KernelKnobs, RawOptions, RawWordError, WriteCache};
