//! [`ServiceParts`]: the time of commands, split as the drive model predicts it.

use headtime_sched::PredictedService;
use headtime_units::Nanos;

/// The parts of the service time of one command, or the sum over commands; they add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceParts {
    /// The predicted overhead.
    pub overhead: Nanos,
    /// The predicted minimum seek time.
    pub seek: Nanos,
    /// The rest of the predicted positioning time: rotation, and the seek time beyond the minimum.
    pub rotation: Nanos,
    /// The predicted transfer time.
    pub transfer: Nanos,
    /// The service time beyond the prediction; all of it without a prediction.
    pub unpredicted: Nanos,
}

impl ServiceParts {
    /// Returns the names and values of the parts.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Nanos); 5] {
        [
            ("overhead", self.overhead),
            ("seek", self.seek),
            ("rotation", self.rotation),
            ("transfer", self.transfer),
            ("unpredicted", self.unpredicted),
        ]
    }

    /// The parts of `service`, each at most as predicted.
    pub(crate) fn of(mut service: Nanos, predicted: Option<PredictedService>) -> Self {
        let PredictedService { overhead, seek, rotation, transfer } = predicted.unwrap_or_default();
        let mut part = |predicted: Nanos| take(&mut service, predicted);
        Self {
            overhead: part(overhead),
            seek: part(seek),
            rotation: part(rotation),
            transfer: part(transfer),
            unpredicted: part(Nanos::MAX),
        }
    }

    /// Adds the parts of a further command.
    pub(crate) fn add(&mut self, more: Self) {
        self.overhead += more.overhead;
        self.seek += more.seek;
        self.rotation += more.rotation;
        self.transfer += more.transfer;
        self.unpredicted += more.unpredicted;
    }
}

pub(crate) fn take(from: &mut Nanos, part: Nanos) -> Nanos {
    let taken = part.min(*from);
    *from -= taken;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_service_add_up_to_it_and_none_exceeds_its_prediction() {
        let us = Nanos::from_us;
        let predicted =
            PredictedService { overhead: us(1), seek: us(30), rotation: us(40), transfer: us(5) };
        let mut sum = ServiceParts::default();
        for (service, last) in [(100, us(24)), (50, us(0)), (0, us(0))] {
            let parts = ServiceParts::of(us(service), Some(predicted));
            assert_eq!(parts.unpredicted, last);
            let total = parts.named().iter().fold(Nanos::ZERO, |total, (_, part)| total + *part);
            assert_eq!(total, us(service));
            sum.add(parts);
        }
        assert_eq!((sum.seek, sum.rotation, sum.transfer), (us(60), us(59), us(5)));
        assert_eq!(ServiceParts::of(us(9), None).unpredicted, us(9));
    }
}
