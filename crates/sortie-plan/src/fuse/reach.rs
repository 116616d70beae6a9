//! Which groups of a segment depend on which, directly or not.
//!
//! A row of bits per group, kept closed under dependence, so that a question is one bit. Invariant: if a row has a bit,
//! it has all bits of that bit's row.

/// The dependences among groups.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Words of a row.
    words: usize,
    /// By group: the groups it depends on.
    rows: Vec<u64>,
    /// By group: whether another depends on it. Most groups gain dependences before any other group reads them.
    needed: Vec<bool>,
}

impl Reach {
    /// Forgets all groups. There will be at most this many.
    pub(super) fn restart(&mut self, groups: usize) {
        self.words = groups.div_ceil(64);
        self.rows.clear();
        self.needed.clear();
    }

    /// A group that depends on none.
    pub(super) fn push(&mut self) {
        self.rows.resize(self.rows.len() + self.words, 0);
        self.needed.push(false);
    }

    /// Whether a group depends on another.
    pub(super) fn depends(&self, group: usize, on: usize) -> bool {
        self.rows[group * self.words + on / 64] >> (on % 64) & 1 == 1
    }

    /// From now on a group depends on another.
    pub(super) fn add(&mut self, group: usize, on: usize) {
        if self.depends(group, on) {
            return;
        }
        self.needed[on] = true;
        self.take(group, on);
        if self.needed[group] {
            self.spread(group, group);
        }
    }

    /// `one` takes the place of `other`.
    pub(super) fn merge(&mut self, one: usize, other: usize) {
        for word in 0..self.words {
            self.rows[one * self.words + word] |= self.rows[other * self.words + word];
        }
        self.needed[one] |= self.needed[other];
        if self.needed[one] {
            self.spread(one, one);
            self.spread(other, one);
        }
    }

    /// What depends on `of` also depends on `on`.
    fn spread(&mut self, of: usize, on: usize) {
        for group in 0..self.needed.len() {
            if group != on && self.depends(group, of) {
                self.take(group, on);
            }
        }
    }

    /// Adds a group and its dependences to a row.
    fn take(&mut self, group: usize, on: usize) {
        let (to, from) = (group * self.words, on * self.words);
        for word in 0..self.words {
            self.rows[to + word] |= self.rows[from + word];
        }
        self.rows[to + on / 64] |= 1 << (on % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::Reach;

    fn groups(count: usize) -> Reach {
        let mut reach = Reach::default();
        reach.restart(count);
        (0..count).for_each(|_| reach.push());
        reach
    }

    #[test]
    fn dependence_reaches_through_groups_in_any_order_of_their_edges() {
        let mut reach = groups(200);
        reach.add(199, 70);
        reach.add(70, 3);
        reach.add(3, 150);
        assert!([70, 3, 150].iter().all(|on| reach.depends(199, *on)));
        assert!(!reach.depends(150, 3) && !reach.depends(3, 70) && !reach.depends(199, 4));
    }

    #[test]
    fn a_merged_group_is_needed_by_all_that_needed_either() {
        let mut reach = groups(6);
        reach.add(2, 0);
        reach.add(3, 1);
        reach.add(1, 5);
        reach.add(4, 2);
        reach.merge(0, 1);
        assert!([2, 3, 4].iter().all(|group| reach.depends(*group, 0) && reach.depends(*group, 5)));
        assert!(reach.depends(0, 5) && !reach.depends(0, 2) && !reach.depends(0, 0));
    }
}
