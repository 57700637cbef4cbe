//! [`Completions`]: completed pieces on their way from the engine to their connection.
//!
//! A fast drive completes a piece while the connection submits it. The connection then finds it
//! without being woken: only a connection that waits in [`Completions::arrive`] is woken. There is
//! no bound, because each piece has a permit of the scheduler.

use std::future::poll_fn;
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// A queue from any thread to one task.
#[derive(Debug)]
pub(super) struct Completions<T>(Mutex<State<T>>);

#[derive(Debug)]
struct State<T> {
    done: Vec<T>,
    /// The task, if it waits.
    waiting: Option<Waker>,
}

impl<T> Completions<T> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { done: Vec::new(), waiting: None }))
    }

    pub(super) fn push(&self, done: T) {
        let mut state = self.0.lock();
        state.done.push(done);
        let waiting = state.waiting.take();
        drop(state);
        if let Some(task) = waiting {
            task.wake();
        }
    }

    /// Moves all into an empty vector. The task does not wait any more.
    pub(super) fn take(&self, into: &mut Vec<T>) {
        debug_assert!(into.is_empty(), "earlier completions are processed");
        let mut state = self.0.lock();
        state.waiting = None;
        std::mem::swap(&mut state.done, into);
    }

    /// Waits until there is one.
    pub(super) async fn arrive(&self) {
        poll_fn(|context| {
            let mut state = self.0.lock();
            if !state.done.is_empty() {
                return Poll::Ready(());
            }
            state.waiting = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_task_is_woken_once_and_only_while_it_waits() {
        let (completions, wakes) = (Completions::new(), Arc::new(Wakes::default()));
        let waker = Arc::clone(&wakes).into();
        let arrived = |completions: &Completions<u8>| {
            Box::pin(completions.arrive()).as_mut().poll(&mut Context::from_waker(&waker))
        };
        assert!(arrived(&completions).is_pending());
        completions.push(1);
        completions.push(2);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(arrived(&completions).is_ready());
        let mut done = Vec::new();
        completions.take(&mut done);
        assert_eq!(done, [1, 2]);
        done.clear();
        assert!(arrived(&completions).is_pending());
        completions.take(&mut done);
        completions.push(3);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "the task does something else");
        assert!(arrived(&completions).is_ready());
    }
}
