//! The baseline: a batch recorded for each run, planned, submitted and waited for.

use std::time::Instant;

use sortie::{Buffer, Device, DeviceOptions};

use crate::comparison::{Outcome, Run, Runner};
use crate::operands::{COLUMNS, ChainOperands, ProductOperands, ROWS, SIDE};

/// Opens the device whose name contains `name`.
pub(crate) fn open(name: &str) -> Outcome<Device> {
    Ok(Device::open_with(DeviceOptions::default().with_device(name))?)
}

/// The chain on resident buffers.
pub(crate) struct Chain {
    device: Device,
    x: Buffer<f32>,
    w: Buffer<f32>,
    b: Buffer<f32>,
    y: Buffer<f32>,
}

impl Chain {
    /// Uploads the operands.
    pub(crate) fn new(device: &Device) -> Outcome<Self> {
        let operands = ChainOperands::new();
        Ok(Self {
            device: device.clone(),
            x: device.upload(&operands.x)?,
            w: device.upload(&operands.w)?,
            b: device.upload(&operands.b)?,
            y: device.zeros(ROWS * COLUMNS)?,
        })
    }
}

impl Runner for Chain {
    fn run(&mut self, wanted: bool) -> Run {
        let start = Instant::now();
        let batch = self.device.batch();
        let x = batch.tensor(&self.x, [ROWS, COLUMNS]);
        let (w, b) = (batch.tensor(&self.w, [COLUMNS]), batch.tensor(&self.b, [COLUMNS]));
        let g = (x * w + b).gelu();
        (g * g.sigmoid() + x).store(&self.y);
        batch.submit()?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        Ok((time, if wanted { self.y.download()? } else { Vec::new() }))
    }
}

/// The product on resident buffers.
pub(crate) struct Product {
    device: Device,
    a: Buffer<f32>,
    b: Buffer<f32>,
    c: Buffer<f32>,
}

impl Product {
    /// Uploads the operands.
    pub(crate) fn new(device: &Device) -> Outcome<Self> {
        let operands = ProductOperands::new();
        Ok(Self {
            device: device.clone(),
            a: device.upload(&operands.a)?,
            b: device.upload(&operands.b)?,
            c: device.zeros(SIDE * SIDE)?,
        })
    }
}

impl Runner for Product {
    fn run(&mut self, wanted: bool) -> Run {
        let start = Instant::now();
        let batch = self.device.batch();
        let (a, b) = (batch.tensor(&self.a, [SIDE, SIDE]), batch.tensor(&self.b, [SIDE, SIDE]));
        a.matmul(b).store(&self.c);
        batch.submit()?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        Ok((time, if wanted { self.c.download()? } else { Vec::new() }))
    }
}

/// The product with the left matrix written and the result read in each run: the burden of peers that cannot do without.
pub(crate) struct ReadProduct {
    product: Product,
    a: Vec<f32>,
}

impl ReadProduct {
    /// Uploads the operands, and keeps the left one to write it again.
    pub(crate) fn new(device: &Device) -> Outcome<Self> {
        Ok(Self { product: Product::new(device)?, a: ProductOperands::new().a })
    }
}

impl Runner for ReadProduct {
    fn run(&mut self, wanted: bool) -> Run {
        let Product { device, a, b, c } = &self.product;
        let start = Instant::now();
        let batch = device.batch();
        batch.write(a, &self.a);
        let (left, right) = (batch.tensor(a, [SIDE, SIDE]), batch.tensor(b, [SIDE, SIDE]));
        left.matmul(right).store(c);
        let reading = batch.read(c);
        batch.submit()?;
        let answer = reading.wait()?;
        let time = start.elapsed().as_secs_f64() * 1e6;
        Ok((time, if wanted { answer } else { Vec::new() }))
    }
}
