//! Log-polar states, sixteen complex numbers in sixteen bytes, and operations on thousands of them at once.
//!
//! A [`State`] has one byte for each of its 16 layers. The high nibble is ρ (signed, −8…7), the low nibble θ (0…15), and
//! the layer stands for z = 2^(ρ/4)·e^(iθ·2π/16); at ρ = −8 it is 0.
//!
//! [`States`] runs the operations on a [`sortie::Device`]: every call takes many requests and answers them with one
//! submission and one dispatch. [`reference`](mod@reference) defines the answers, in plain Rust.
//!
//! ```
//! use sortie_states::{Interpolation, State, States};
//!
//! let states = States::new(&sortie::Device::open()?)?;
//! let (a, b) = (State::from_byte(0x01), State::from_byte(0x4f));
//! let frames = states.interpolate(&[
//!     Interpolation { a: vec![a], b: vec![b], t: 0.5, slerp: false }, // θ from 1 up to 15
//!     Interpolation { a: vec![a], b: vec![b], t: 0.5, slerp: true },  // θ from 1 down to −1
//! ])?;
//! assert_eq!(frames, [[State::from_byte(0x28)], [State::from_byte(0x20)]]);
//! # Ok::<(), sortie_states::StatesError>(())
//! ```
//!
//! Independent callers with small requests use [`BatchedStates`]: their requests share batches.
//!
//! # Layout
//!
//! | module | noun |
//! |---|---|
//! | `state` | [`State`], [`Layer`] |
//! | `gradient` | [`Gradient`], [`Slope`] |
//! | `request` | [`Interpolation`], [`Sequence`], [`Bezier`]: the operations that take parameters |
//! | `weights` | weights of control points, in integers |
//! | [`reference`](mod@reference) | every operation in plain Rust |
//! | `blend` | requests laid out for the device |
//! | `states` | [`States`]: every operation on a device |
//! | `batched` | [`BatchedStates`], [`StatesFuture`]: the same for many callers, who share batches |
//! | `job` | [`StatesJob`]: the job of their [`Batcher`](sortie::Batcher) |
//! | `states_request`, `answer` | [`StatesRequest`], [`Answer`]: a request of any kind, and its answer |
//! | `staged_inputs` | the inputs of one batch, sorted by operation, and its pending answers |
//! | `error` | [`StatesError`] |

mod answer;
mod batched;
mod blend;
mod error;
mod gradient;
mod job;
pub mod reference;
mod request;
mod staged_inputs;
mod state;
mod states;
mod states_request;
mod weights;

pub use self::{
    answer::Answer,
    batched::{BatchedStates, StatesFuture},
    error::{Result, StatesError},
    gradient::{EPSILON, Gradient, Slope},
    job::StatesJob,
    request::{Bezier, Interpolation, Sequence},
    state::{LAYERS, Layer, State},
    states::States,
    states_request::StatesRequest,
};
