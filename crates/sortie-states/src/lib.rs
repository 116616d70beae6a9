//! Log-polar states: sixteen complex numbers in sixteen bytes, and what is done with thousands of them at once.
//!
//! A [`State`] has one byte for each of its 16 layers. The high nibble is ρ (signed, −8…7), the low nibble θ (0…15), and the layer stands for
//! z = 2^(ρ/4)·e^(iθ·2π/16); at ρ = −8 it is 0.
//!
//! [`States`] does the work on a [`sortie::Device`]: every call takes many requests and answers them with one submission and one dispatch,
//! whatever each of them asks for. [`reference`](mod@reference) says what the answers are, in plain Rust.
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
//! Callers that have a little each, and do not know of each other, ask [`BatchedStates`]: their requests share batches.
//!
//! # Layout
//!
//! | module | noun |
//! |---|---|
//! | `state` | [`State`], [`Layer`] |
//! | `gradient` | [`Gradient`], [`Slope`] |
//! | `request` | [`Interpolation`], [`Sequence`], [`Bezier`]: what can be asked for |
//! | `weights` | how far along each control point pulls, in integers |
//! | [`reference`](mod@reference) | every operation in plain Rust |
//! | `blend` | requests laid out for the device |
//! | `states` | [`States`]: every operation on a device |
//! | `batched` | [`BatchedStates`], [`Asking`]: the same for any number of callers, who share batches |
//! | `job` | [`StatesJob`]: what their [`Batcher`](sortie::Batcher) runs |
//! | `ask`, `answer` | [`Ask`], [`Answer`]: a request of any kind, and what it gets |
//! | `load` | what one batch brings and takes home |
//! | `error` | [`StatesError`] |

mod answer;
mod ask;
mod batched;
mod blend;
mod error;
mod gradient;
mod job;
mod load;
pub mod reference;
mod request;
mod state;
mod states;
mod weights;

pub use self::{
    answer::Answer,
    ask::Ask,
    batched::{Asking, BatchedStates},
    error::{Result, StatesError},
    gradient::{EPSILON, Gradient, Slope},
    job::StatesJob,
    request::{Bezier, Interpolation, Sequence},
    state::{LAYERS, Layer, State},
    states::States,
};
