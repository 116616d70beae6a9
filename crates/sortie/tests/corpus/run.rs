//! Runs cases on every device and compares what comes out.

use sortie::{Batch, Bind, Buffer, Device, DeviceOptions, ErrorKind, Grid, Kernel, Result};

use crate::{
    case::{Case, Memory, Size, Step},
    devices::{devices, has},
    drivers::say,
    tolerance::Format,
    word::Word,
};

/// Every case on every device that can run it; all differences together, so that one run shows the whole picture.
pub(crate) fn run_all(subject: &str, cases: &[Case]) {
    let mut wrong = Vec::new();
    for case in cases {
        let mut first: Option<(&str, Vec<Vec<u32>>)> = None;
        for (name, device) in devices() {
            if let Some(need) = case.needs.iter().find(|need| !has(name, device, **need)) {
                say(&format!("SKIPPED on {name}: {subject}/{} needs {need:?}", case.name));
                continue;
            }
            let found = match run(device, case) {
                Ok(found) => found,
                Err(error) => {
                    wrong.push(format!("{subject}/{} on {name}: {error}", case.name));
                    continue;
                }
            };
            let against = compare(case, &found).err().map(|how| format!("against the reference: {how}"));
            let other = first.as_ref().and_then(|(first, words)| {
                let how = compare(&of_device(case, words), &found).err()?;
                Some(format!("against {first}: {how}"))
            });
            wrong.extend(against.or(other).map(|how| format!("{subject}/{} on {name}, {how}", case.name)));
            first.get_or_insert((name, found));
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Every case on a device that can run all of them.
pub(crate) fn run_on(device: &Device, cases: &[Case]) {
    for case in cases {
        let found = run(device, case).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        compare(case, &found).unwrap_or_else(|how| panic!("{} on {}: {how}", case.name, device.info()));
    }
}

/// Every case on the built-in CPU while it looks for mistakes: it finds those that are there, and no other. That a case counts on the zeros that
/// workgroup memory starts with is found only if that was asked for.
pub(crate) fn check_all(cases: &[Case], check_unwritten: bool) {
    let watched = DeviceOptions::default().with_check_races(true).with_check_unwritten(check_unwritten);
    let device = Device::cpu_with(watched).unwrap_or_else(|error| panic!("the built-in CPU does not open: {error}"));
    let mut wrong = Vec::new();
    for case in cases {
        let mistake = case.mistake.filter(|mistake| check_unwritten || !mistake.contains("no invocation has written"));
        let how = match (run(&device, case), mistake) {
            (Ok(found), None) => compare(case, &found).err(),
            (Ok(_), Some(mistake)) => Some(format!("not found: {mistake}")),
            (Err(error), Some(mistake)) if error.kind() == ErrorKind::Race && error.to_string().contains(mistake) => {
                None
            }
            (Err(error), _) => Some(error.to_string()),
        };
        wrong.extend(how.map(|how| format!("{}: {how}", case.name)));
    }
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// The buffers of a case after it ran.
fn run(device: &Device, case: &Case) -> Result<Vec<Vec<u32>>> {
    let buffers =
        case.memory.iter().map(|memory| device.upload(&memory.before)).collect::<Result<Vec<Buffer<u32>>>>()?;
    let batch = device.batch();
    for step in &case.steps {
        let kernel = case.kernel(device, step)?;
        let grid = match step.size {
            Size::Items(items) => Grid::items(items),
            Size::Groups(groups) => Grid::groups(groups),
        };
        dispatch(&batch, &kernel, step, &buffers, grid);
    }
    let readings: Vec<_> = buffers.iter().map(|buffer| batch.read(buffer)).collect();
    batch.submit()?;
    readings.into_iter().map(sortie::Reading::wait).collect()
}

pub(crate) fn dispatch(batch: &Batch, kernel: &Kernel, step: &Step, buffers: &[Buffer<u32>], grid: Grid<'_>) {
    let untyped: Vec<_> = match &step.binds {
        None => buffers.iter().map(Buffer::untyped).collect(),
        Some(binds) => binds.iter().map(|index| buffers[*index].untyped()).collect(),
    };
    let bound: Vec<&dyn Bind> = untyped.iter().map(|buffer| buffer as &dyn Bind).collect();
    let recorded = batch.dispatch(kernel, &bound, grid).label(step.entry);
    // Immediates are a value of a plain type, so each length is a type.
    macro_rules! immediates {
        ($($len:literal)*) => {
            match step.immediates.len() {
                0 => {}
                $($len => {
                    let words: [u32; $len] = std::array::from_fn(|index| step.immediates[index]);
                    recorded.immediates(&words);
                })*
                len => panic!("{}: {len} words of immediates", step.entry),
            }
        };
    }
    immediates!(1 2 3 4 5 6 7 8 12 16 20 24 28 32);
}

/// The first word that is wrong, and how many are.
fn compare(case: &Case, found: &[Vec<u32>]) -> std::result::Result<(), String> {
    for (index, (memory, found)) in case.memory.iter().zip(found).enumerate() {
        let Some(after) = &memory.after else {
            if memory.before != *found {
                return Err(format!("buffer {index}, an input, was written"));
            }
            continue;
        };
        let wrong: Vec<_> = (0..after.len()).filter(|at| !right(memory, after[*at], found[*at])).collect();
        if let Some(at) = wrong.first() {
            let few: Vec<_> =
                wrong.iter().take(6).map(|at| format!("[{at}] {}", told(after[*at], found[*at]))).collect();
            return Err(format!(
                "buffer {index}, {} of {} words from {at} on: {} ({})",
                wrong.len(),
                after.len(),
                few.join("; "),
                memory.tolerance
            ));
        }
    }
    Ok(())
}

fn right(memory: &Memory, expected: Word, found: u32) -> bool {
    let allows = |found, expected, format| memory.tolerance.allows(found, expected, format);
    match expected {
        Word::Bits(bits) => bits == found,
        Word::Float(value) => allows(f64::from(f32::from_bits(found)), value, Format::F32),
        Word::Halves(low, high) => {
            let [a, b] = halves(found);
            allows(a, low, Format::F16) && allows(b, high, Format::F16)
        }
        Word::Among(low, high) => (low..=high).contains(&found),
        Word::Any => true,
    }
}

fn told(expected: Word, found: u32) -> String {
    match expected {
        Word::Float(value) => format!("{} instead of {value}", f32::from_bits(found)),
        Word::Halves(low, high) => format!("{:?} instead of {low}, {high}", halves(found)),
        _ => format!("{found:#x} instead of {expected:x?}"),
    }
}

fn halves(word: u32) -> [f64; 2] {
    [word as u16, (word >> 16) as u16].map(|bits| half::f16::from_bits(bits).to_f64())
}

/// The same case with what another device gave as its reference, where the kernel leaves no choice.
fn of_device(case: &Case, words: &[Vec<u32>]) -> Case {
    let mut other = Case::new(case.name, case.source.clone());
    other.memory = case
        .memory
        .iter()
        .zip(words)
        .map(|(memory, words)| {
            let after = memory.after.as_ref().map(|after| {
                let words = after.iter().zip(words);
                words
                    .map(|(expected, word)| match expected {
                        Word::Bits(_) => Word::Bits(*word),
                        Word::Float(_) => Word::Float(f64::from(f32::from_bits(*word))),
                        Word::Halves(..) => Word::Halves(halves(*word)[0], halves(*word)[1]),
                        Word::Among(..) | Word::Any => *expected,
                    })
                    .collect()
            });
            Memory { before: memory.before.clone(), after, tolerance: memory.tolerance }
        })
        .collect();
    other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tolerance::abs;

    fn case() -> Case {
        let after = [Word::Float(1.0), Word::Bits(7), Word::Among(3, 5), Word::Any, Word::Halves(1.0, 2.0)];
        Case::new("case", "").input(&[9_u32]).output(after).within(abs(0.1, "a test"))
    }

    fn found(at: usize, word: u32) -> Vec<Vec<u32>> {
        let mut words = vec![1_f32.to_bits(), 7, 4, 77, 0x4000_3c00];
        words[at] = word;
        vec![vec![9], words]
    }

    #[test]
    fn a_word_passes_when_it_is_what_the_reference_allows() {
        for (at, word) in [(0, 1.05_f32.to_bits()), (1, 7), (2, 5), (3, 0), (4, 0x4001_3c01)] {
            assert_eq!(compare(&case(), &found(at, word)), Ok(()), "word {at}");
        }
    }

    #[test]
    fn a_word_that_is_not_allowed_is_named() {
        for (at, word) in [(0, 1.2_f32.to_bits()), (0, f32::NAN.to_bits()), (1, 8), (2, 6), (4, 0x4400_3c00)] {
            let how = compare(&case(), &found(at, word)).expect_err("a difference");
            assert!(how.contains(&format!("1 of 5 words from {at} on")), "{how}");
        }
    }

    #[test]
    fn an_input_that_was_written_is_named() {
        let mut found = found(0, 1_f32.to_bits());
        found[0][0] = 8;
        assert!(compare(&case(), &found).is_err_and(|how| how.contains("an input")));
    }
}
