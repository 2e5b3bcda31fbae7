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
}

struct TokenState {
    token: String,
    generation: u64,
}

impl TokenCell {
    /// A cell that holds `token`.
    pub fn new(token: String) -> TokenCell {
        let state = Mutex::new(TokenState { token, generation: 0 });
        TokenCell { inner: Arc::new(TokenInner { state, store: Mutex::default() }) }
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
