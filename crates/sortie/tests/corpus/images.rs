//! Pictures: fractals, automata, convolutions, rays.

use crate::{
    case::Case,
    dice::{below, floats},
    tolerance::abs,
    word::Word,
};

const KERNELS: &str = include_str!("kernels/images.wgsl");

fn picture(name: &'static str, width: u32, height: u32) -> Case {
    Case::new(name, KERNELS).items([width, height, 1]).immediates(&[width, height])
}

/// How many steps a point takes. Rounding decides for points near the edge, so it is done in `f64`, in `f32`, and in `f32` with fused
/// operations; where they differ the answer lies among them, or anywhere once the orbit is chaotic.
fn escape(start: [f64; 2], c: [f64; 2]) -> Word {
    let wide = {
        let ([mut x, mut y], mut n) = (start, 0);
        while n < 60 && x * x + y * y <= 4.0 {
            (x, y) = (x * x - y * y + c[0], 2.0 * x * y + c[1]);
            n += 1;
        }
        n
    };
    let narrow = |fused: bool| {
        let ([mut x, mut y], [p, q]) = (start.map(|s| s as f32), c.map(|c| c as f32));
        let mut n = 0;
        while n < 60 && x * x + y * y <= 4.0 {
            (x, y) = if fused {
                (x.mul_add(x, -(y * y)) + p, (2.0 * x).mul_add(y, q))
            } else {
                (x * x - y * y + p, 2.0 * x * y + q)
            };
            n += 1;
        }
        n
    };
    let all = [wide, narrow(false), narrow(true)];
    if all.iter().all(|n| *n == wide) { Word::from(wide) } else { Word::Among(0, 60) }
}

fn mandelbrot() -> Case {
    let (width, height) = (83, 81);
    let at = |place: u32| [f64::from(place % width) / 32.0 - 2.0, f64::from(place / width) / 32.0 - 1.25];
    picture("mandelbrot", width, height).output((0..width * height).map(|place| escape([0.0; 2], at(place))))
}

fn julia() -> Case {
    let (width, height) = (51, 47);
    let at = |place: u32| [f64::from(place % width) / 16.0 - 1.5, f64::from(place / width) / 16.0 - 1.5];
    picture("julia", width, height).output((0..width * height).map(|place| escape(at(place), [-0.75, 0.125])))
}

fn game_of_life() -> Case {
    let (width, height) = (45_usize, 29);
    let cells = below(180, width * height, 2);
    let expected = (0..width * height).map(|place| {
        let (x, y) = (place % width, place / width);
        let near = |dx: usize, dy: usize| cells[(y + dy + height - 1) % height * width + (x + dx + width - 1) % width];
        let around: u32 = (0..9).filter(|nth| *nth != 4).map(|nth| near(nth % 3, nth / 3)).sum();
        u32::from(around == 3 || around == 2 && near(1, 1) == 1)
    });
    let expected: Vec<u32> = expected.collect();
    picture("game_of_life", width as u32, height as u32).input(&cells).output(expected)
}

fn convolution_1d() -> Case {
    let a = floats(181, 401, -8.0, 8.0);
    let kernel = [0.0625, 0.125, 0.25, 0.5, 0.25, 0.125, 0.0625];
    let expected = (0..a.len()).map(|at| {
        let terms = kernel.iter().enumerate().filter_map(|(k, factor)| {
            let from = (at + k).checked_sub(3)?;
            Some(f64::from(*a.get(from)?) * factor)
        });
        terms.sum::<f64>()
    });
    let expected: Vec<f64> = expected.collect();
    let case = Case::new("convolution_1d", KERNELS).items([401, 1, 1]).input(&a).output(expected);
    case.within(abs(1e-5, "seven rounded terms in any order"))
}

fn convolution_2d() -> Case {
    let (width, height) = (37_usize, 21);
    let a = floats(182, width * height, -4.0, 4.0);
    let expected = (0..width * height).map(|place| {
        let (x, y) = (place % width, place / width);
        let near = |dx: usize, dy: usize| {
            let (x, y) = ((x + dx).max(1) - 1, (y + dy).max(1) - 1);
            f64::from(a[y.min(height - 1) * width + x.min(width - 1)])
        };
        (0..9).map(|nth| near(nth % 3, nth / 3) * (1 + nth % 3 * (nth / 3)) as f64).sum::<f64>()
    });
    let expected: Vec<f64> = expected.collect();
    let case = picture("convolution_2d", width as u32, height as u32).input(&a).output(expected);
    case.within(abs(3e-5, "nine rounded terms in any order"))
}

fn ray_spheres() -> Case {
    const SPHERES: [([f64; 3], f64); 3] = [([0.0, 0.0, 6.0], 2.0), ([2.5, 1.0, 8.0], 3.0), ([-3.0, -1.0, 5.0], 1.0)];
    let (width, height) = (31_u32, 33);
    let dot = |a: [f64; 3], b: [f64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let expected = (0..width * height).map(|place| {
        let v = [f64::from(place % width) / 16.0 - 0.97, f64::from(place / width) / 16.0 - 0.98, 1.0];
        let length = dot(v, v).sqrt();
        let v = v.map(|v| v / length);
        let hits = SPHERES.iter().zip(0..).map(|((center, radius), index)| {
            let b = -dot(*center, v);
            (b * b - dot(*center, *center) + radius * radius, b, f64::from(index))
        });
        let hits: Vec<_> = hits.collect();
        // A ray that only touches a sphere may pass it by.
        if hits.iter().any(|(d, _, _)| d.abs() < 0.02) {
            return Word::Any;
        }
        let distances = hits.iter().filter(|(d, _, _)| *d > 0.0).map(|(d, b, index)| (-b - d.sqrt(), *index));
        let first = distances.min_by(|a, b| a.0.total_cmp(&b.0));
        Word::from(first.map_or(-1.0, |(distance, index)| distance + 100.0 * index))
    });
    let expected: Vec<Word> = expected.collect();
    let case = picture("ray_spheres", width, height).output(expected);
    case.within(abs(2e-3, "a root of a difference of at least 0.02, of values near 60, and 8 ulp of 200"))
}

pub(crate) fn cases() -> Vec<Case> {
    vec![mandelbrot(), julia(), game_of_life(), convolution_1d(), convolution_2d(), ray_spheres()]
}
