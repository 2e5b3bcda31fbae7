//! The newest invocation token of a run, shared by the run's thread and the side that takes events.
//!
//! Knows nothing of requests; it holds and passes on, and never prints a token.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Called with each renewed token, to store it.
pub type TokenStore = Box<dyn Fn(&str) + Send + Sync>;

/// The newest invocation token of a run, shared by the run's thread and the gateway's side.
#[derive(Clone)]
pub struct TokenCell {
    inner: Arc<TokenInner>,
}

struct TokenInner {
    state: Mutex<TokenState>,
    store: Mutex<Option<TokenStore>>,
    /// Held while one thread renews.
    renewing: Mutex<()>,
}

struct TokenState {
    token: String,
    generation: u64,
}

impl TokenCell {
    /// A cell that holds `token`.
    pub fn new(token: String) -> TokenCell {
        let state = Mutex::new(TokenState { token, generation: 0 });
        TokenCell {
            inner: Arc::new(TokenInner { state, store: Mutex::default(), renewing: Mutex::default() }),
        }
    }

    /// The newest token.
    pub fn newest(&self) -> String {
        self.state().token.clone()
    }

    /// Grows with each replacement.
    pub fn generation(&self) -> u64 {
        self.state().generation
    }

    /// A redelivery brought `token`, which is stored already.
    pub fn replace(&self, token: String) {
        let mut state = self.state();
        state.token = token;
        state.generation += 1;
    }

    /// Sets what keeps a token that this side renewed itself.
    pub fn set_store(&self, store: TokenStore) {
        *self.inner.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
    }

    /// The newest token and its generation, read together.
    pub(super) fn current(&self) -> (String, u64) {
        let state = self.state();
        (state.token.clone(), state.generation)
    }

    /// Does `renew` unless the token of `generation` was replaced meanwhile: two threads whose requests were refused
    /// with one token renew it once, and a redelivery may have brought a newer one.
    ///
    /// # Errors
    /// Those of `renew`.
    pub(super) fn renew_once<E>(
        &self,
        generation: u64,
        renew: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let _one = self.inner.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.generation() == generation { renew() } else { Ok(()) }
    }

    /// This side renewed it. Stores first, so that a crash in between finds the newer token.
    pub(super) fn renewed(&self, token: String) {
        if let Some(store) = self.inner.store.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            store(&token);
        }
        self.replace(token);
    }

    fn state(&self) -> MutexGuard<'_, TokenState> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for TokenCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenCell(generation {})", self.generation())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use crossbeam_channel::bounded;

    use super::*;

    /// How long nothing may happen: far longer than a thread takes for its next statement.
    const QUIET: Duration = Duration::from_millis(200);

    #[test]
    fn two_refusals_of_one_token_renew_it_once() {
        let cell = TokenCell::new("first".to_owned());
        let (begun, has_begun) = bounded(2);
        let (go, may_go) = bounded(2);
        let renew = || -> Result<(), Infallible> {
            begun.send("renewing").unwrap();
            may_go.recv().unwrap();
            cell.renewed("second".to_owned());
            Ok(())
        };
        std::thread::scope(|scope| {
            scope.spawn(|| cell.renew_once(0, renew));
            assert_eq!(has_begun.recv(), Ok("renewing"));
            scope.spawn(|| {
                begun.send("asking").unwrap();
                cell.renew_once(0, renew)
            });
            assert_eq!(has_begun.recv(), Ok("asking"));
            let second = has_begun.recv_timeout(QUIET);
            // One for each, so that both end whatever they do.
            (0..2).for_each(|_| go.send(()).unwrap());
            assert!(second.is_err(), "the second waits for the first");
        });
        assert_eq!((cell.newest().as_str(), cell.generation()), ("second", 1));
    }
}
