use std::fmt;

use crate::terminal::Style;

/// Which side of its column a cell keeps to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Aligned columns under bold names.
pub(crate) struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(columns: &[(&'static str, Align)]) -> Self {
        Self {
            columns: columns.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |at: usize, name: &str| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            let cells = cells.map(|cell| cell.chars().count());
            cells.chain([name.chars().count()]).max().unwrap_or(0)
        };
        let columns: Vec<(usize, Align)> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, (name, align))| (width(at, name), *align))
            .collect();
        let names = self.columns.iter().map(|(name, _)| *name);
        writeln!(f, "{}", Style::Bold.paint(&line(&columns, names)))?;
        for row in &self.rows {
            writeln!(f, "{}", line(&columns, row.iter().map(String::as_str)))?;
        }
        Ok(())
    }
}

fn line<'c>(columns: &[(usize, Align)], cells: impl Iterator<Item = &'c str>) -> String {
    let cells: Vec<String> = columns
        .iter()
        .zip(cells)
        .map(|((width, align), cell)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        })
        .collect();
    cells.join("  ").trim_end().to_owned()
}
