//! Joined recordings compute what the recording computes in order: random programs of many instances, and the shapes of
//! groups for programs that are known.

mod machine;
mod programs;

use sortie_plan::{Caps, OpKind, Recording, TensorKind, fuse::lower, join::join};

use self::{
    machine::run,
    programs::{Draft, random},
};

fn caps(join: u32, align: u32) -> Caps {
    Caps { join, params_align: align, ..Caps::default() }
}

#[test]
fn random_programs_compute_the_same_joined_and_in_order() {
    let mut groups = 0;
    for seed in 0..3_000 {
        let recording = random(seed);
        let expected = run(&recording);
        for (least, align) in [(2, 4), (3, 16), (2, 256)] {
            let Some(joined) = join(&recording, &caps(least, align)) else { continue };
            groups += joined.groups;
            let lowered = lower(&joined.recording, &caps(least, align));
            let kernels = lowered.recording.ops.iter().filter(|op| matches!(op.kind, OpKind::Tensor { .. }));
            for access in kernels.flat_map(|op| lowered.recording.accesses_of(op)) {
                assert!(access.start.is_multiple_of(u64::from(align)), "seed {seed}: {access:?} of a kernel, {align}");
                let bytes = lowered.recording.slots[access.slot.0 as usize].bytes;
                assert!(access.end <= bytes, "seed {seed}: {access:?} of a slot of {bytes} bytes");
            }
            assert_eq!(run(&joined.recording), expected, "seed {seed}, at least {least}, aligned to {align}");
        }
    }
    assert!(groups > 10_000, "only {groups} groups");
}

#[test]
fn every_operation_of_the_recording_is_named_once() {
    for seed in 0..300 {
        let recording = random(seed);
        let Some(joined) = join(&recording, &caps(2, 4)) else { continue };
        let mut named: Vec<u32> = Vec::new();
        for (number, op) in joined.recording.ops.iter().enumerate() {
            let members = &joined.ops[joined.members[number].range()];
            let own = !matches!(recording.ops[joined.origin[number] as usize].kind, OpKind::Tensor { .. })
                || matches!(op.kind, OpKind::Tensor { .. });
            match (members, own) {
                ([], true) => named.push(joined.origin[number]),
                (members, _) => named.extend(members),
            }
        }
        named.sort_unstable();
        assert_eq!(named, (0..recording.ops.len() as u32).collect::<Vec<_>>(), "seed {seed}");
    }
}

fn count(recording: &Recording, wanted: impl Fn(&TensorKind) -> bool) -> usize {
    recording.tensors.iter().filter(|tensor| wanted(&tensor.kind)).count()
}

#[test]
fn perceptrons_of_many_requests_are_two_products() {
    let mut draft = Draft::default();
    let (first, second, bias) = (draft.external(&[8, 16]), draft.external(&[16, 8]), draft.external(&[16]));
    for request in 0..20 {
        let x = draft.upload(&[1 + request % 3, 8]);
        let hidden = draft.matmul(x, first);
        let hidden = draft.map(&[hidden, bias], hidden.shape.dims());
        let y = draft.matmul(hidden, second);
        let y = draft.map(&[x, y], x.shape.dims());
        draft.read(y);
    }
    let joined = join(&draft.recording, &caps(2, 4)).expect("they are alike");
    assert_eq!(run(&joined.recording), run(&draft.recording));
    assert_eq!(joined.groups, 4);
    assert_eq!(count(&joined.recording, |kind| matches!(kind, TensorKind::Matmul { .. })), 2);
    assert_eq!(joined.recording.tensors.len(), 4);
}

#[test]
fn other_weights_or_other_numbers_are_not_joined() {
    let mut draft = Draft::default();
    for _ in 0..4 {
        let weights = draft.external(&[8, 8]);
        let x = draft.upload(&[1, 8]);
        let y = draft.matmul(x, weights);
        draft.read(y);
    }
    for number in 0..4 {
        let x = draft.upload(&[1, 8]);
        let y = draft.map_number(x, 4 * number);
        draft.read(y);
    }
    assert!(join(&draft.recording, &caps(2, 4)).is_none());
    let x = draft.upload(&[1, 8]);
    let y = draft.map_number(x, 0);
    draft.read(y);
    assert_eq!(join(&draft.recording, &caps(2, 4)).map(|joined| joined.groups), Some(1));
}

#[test]
fn what_a_replay_has_written_for_good_is_no_write() {
    let mut draft = Draft::default();
    for _ in 0..3 {
        let x = draft.external(&[1, 8]);
        draft.written_before();
        let y = draft.map(&[x], &[1, 8]);
        let z = draft.map(&[y], &[1, 8]);
        draft.read(z);
    }
    assert!(join(&draft.recording, &caps(2, 4)).is_none());
    let weights = draft.external(&[8, 8]);
    for _ in 0..3 {
        draft.written_before();
        let x = draft.upload(&[1, 8]);
        let y = draft.matmul(x, weights);
        draft.read(y);
    }
    let joined = join(&draft.recording, &caps(2, 4)).expect("products by one weight");
    assert_eq!(run(&joined.recording), run(&draft.recording));
}

#[test]
fn nothing_is_joined_across_a_barrier() {
    let mut draft = Draft::default();
    let weights = draft.external(&[8, 8]);
    for _ in 0..3 {
        let x = draft.upload(&[1, 8]);
        let y = draft.matmul(x, weights);
        draft.read(y);
        draft.barrier();
    }
    assert!(join(&draft.recording, &caps(2, 4)).is_none());
}
