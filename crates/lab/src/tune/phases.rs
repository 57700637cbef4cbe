//! [`Phases`]: loads one after the other, as one source.

use headtime_units::{Instant, Nanos};
use headtime_workload::{Arrival, ClientId, RequestSource, RequestSpec, SourceEvent};

/// Sources that follow each other. A source ends when its time is over: nothing of it is submitted
/// from then on, and what is pending is still served. The clients and streams of phase *n* are
/// numbered from *n* × [`CLIENTS`] and *n* × [`STREAMS`].
pub(crate) struct Phases {
    phases: Vec<Phase>,
    /// The phase whose arrivals are next.
    arriving: usize,
}

struct Phase {
    source: Box<dyn RequestSource + Send>,
    from: Instant,
    until: Instant,
}

/// The maximum number of clients of a phase.
const CLIENTS: u32 = 1 << 20;
/// The maximum number of streams of a phase.
pub(crate) const STREAMS: u32 = 256;

impl Phases {
    /// The sources, each with the length of its phase.
    pub(crate) fn new(sources: Vec<(Box<dyn RequestSource + Send>, Nanos)>) -> Self {
        let mut from = Instant::ORIGIN;
        let phases = sources.into_iter().map(|(source, length)| {
            let phase = Phase { source, from, until: from + length };
            from = phase.until;
            phase
        });
        Self { phases: phases.collect(), arriving: 0 }
    }

    /// The phase of a client, and its number there.
    fn of(&mut self, client: ClientId) -> Option<(u32, &mut Phase, ClientId)> {
        let number = client.0 / CLIENTS;
        let phase = self.phases.get_mut(number as usize)?;
        Some((number, phase, ClientId(client.0 % CLIENTS)))
    }
}

impl Phase {
    /// The time within the phase.
    fn since(&self, now: Instant) -> Instant {
        Instant::ORIGIN + now.saturating_since(self.from)
    }

    /// A time within the phase as one of the sequence; `None` if the phase is over by then.
    fn at(&self, at: Instant) -> Option<Instant> {
        let at = self.from + at.saturating_since(Instant::ORIGIN);
        (at < self.until).then_some(at)
    }

    fn arrival(&self, number: u32, arrival: &Arrival) -> Option<Arrival> {
        let Arrival { at, ask } = *arrival;
        let deadline = ask.deadline.map(|due| self.from + due.saturating_since(Instant::ORIGIN));
        let client = numbered(number, ask.client);
        let ask = RequestSpec { client, stream: number * STREAMS + ask.stream, deadline, ..ask };
        Some(Arrival { at: self.at(at)?, ask })
    }
}

fn numbered(phase: u32, client: ClientId) -> ClientId {
    ClientId(phase * CLIENTS + client.0 % CLIENTS)
}

impl RequestSource for Phases {
    fn arrival(&mut self) -> Option<Arrival> {
        while let Some(phase) = self.phases.get_mut(self.arriving) {
            let next = phase.source.arrival();
            let number = self.arriving as u32;
            match next.and_then(|arrival| phase.arrival(number, &arrival)) {
                Some(arrival) => return Some(arrival),
                None => self.arriving += 1,
            }
        }
        None
    }

    fn follow(&mut self, now: Instant, client: ClientId) -> Option<Arrival> {
        let (number, phase, client) = self.of(client)?;
        if now >= phase.until {
            return None;
        }
        let arrival = phase.source.follow(phase.since(now), client)?;
        phase.arrival(number, &arrival)
    }

    fn event(&mut self) -> Option<SourceEvent> {
        for (number, phase) in (0..).zip(&mut self.phases) {
            while let Some(event) = phase.source.event() {
                let event = match event {
                    SourceEvent::Request(arrival) => {
                        phase.arrival(number, &arrival).map(SourceEvent::Request)
                    }
                    SourceEvent::Wake { at, client } => phase
                        .at(at)
                        .map(|at| SourceEvent::Wake { at, client: numbered(number, client) }),
                    SourceEvent::Ended { at, client } => phase
                        .at(at)
                        .map(|at| SourceEvent::Ended { at, client: numbered(number, client) }),
                };
                if event.is_some() {
                    return event;
                }
            }
        }
        None
    }

    fn wake(&mut self, now: Instant, client: ClientId) {
        if let Some((_, phase, client)) = self.of(client)
            && now < phase.until
        {
            let since = phase.since(now);
            phase.source.wake(since, client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::{SectorSize, Sectors};
    use headtime_workload::{StreamConfig, Workload};

    #[test]
    fn each_phase_submits_within_its_time_and_has_its_own_clients() {
        let source = |clients| -> Box<dyn RequestSource + Send> {
            let streams = [StreamConfig::closed(clients)];
            let sector = SectorSize::new(512).expect("a size");
            let workload = Workload::new(&streams, sector, Sectors::new(10_000), 1);
            Box::new(workload.expect("a workload"))
        };
        let second = Nanos::from_secs(1);
        let mut phases = Phases::new(vec![(source(2), second), (source(1), second)]);
        let arrivals: Vec<Arrival> = std::iter::from_fn(|| phases.arrival()).collect();
        let at = |ms| Instant::ORIGIN + Nanos::from_ms(ms);
        let seen: Vec<_> =
            arrivals.iter().map(|next| (next.at, next.ask.client.0, next.ask.stream)).collect();
        assert_eq!(
            seen,
            [(at(0), 0, 0), (at(0), 1, 0), (at(1_000), CLIENTS, STREAMS)],
            "the second phase begins when the first is over"
        );
        let follow = |phases: &mut Phases, ms, client| {
            phases.follow(at(ms), ClientId(client)).map(|next| (next.at, next.ask.client.0))
        };
        assert_eq!(follow(&mut phases, 999, 1), Some((at(999), 1)));
        assert_eq!(follow(&mut phases, 1_000, 1), None, "its phase is over");
        assert_eq!(follow(&mut phases, 1_500, CLIENTS), Some((at(1_500), CLIENTS)));
        assert_eq!(follow(&mut phases, 2_000, CLIENTS), None);
    }
}
