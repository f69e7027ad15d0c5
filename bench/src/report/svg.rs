//! Inline SVG plots: axes, bars, lines. No scripts, no external resources.

use std::fmt::Write;

/// Colours of engines, distinguishable for readers with colour vision deficiencies.
pub const COLOURS: [&str; 4] = ["#0969da", "#d97706", "#1a7f37", "#8250df"];

/// Width of every plot.
pub const WIDTH: f64 = 720.0;
/// Left margin for labels.
const LEFT: f64 = 76.0;
/// Bottom margin for the axis.
const BELOW: f64 = 40.0;
/// Top and right margin.
const EDGE: f64 = 14.0;

/// Escapes `text` for HTML.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            other => safe.push(other),
        }
    }
    safe
}

/// The mapping of values to an axis.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// A linear scale from 0 to `high`.
    #[must_use]
    pub fn linear(high: f64) -> Scale {
        Scale {
            low: 0.0,
            high: if high > 0.0 { high } else { 1.0 },
            logarithmic: false,
        }
    }

    /// A linear scale from 0 to `high` or more, with round tick values.
    #[must_use]
    pub fn rounded(high: f64) -> Scale {
        let step = (high / 4.0).max(1e-9);
        let power = 10f64.powf(step.log10().floor());
        let steps = [1.0, 2.0, 2.5, 5.0, 10.0].map(|digit| digit * power);
        let round = steps.into_iter().find(|round| *round >= step);
        Scale::linear(4.0 * round.unwrap_or(step))
    }

    /// A logarithmic scale with powers of ten that enclose `low` and `high`, both positive.
    #[must_use]
    pub fn decades(low: f64, high: f64) -> Scale {
        let low = 10f64.powf(low.max(1e-9).log10().floor());
        let high = 10f64.powf(high.max(low).log10().ceil());
        Scale {
            low,
            high: if high > low { high } else { low * 10.0 },
            logarithmic: true,
        }
    }

    /// A logarithmic scale from `low` to `high`, both positive.
    #[must_use]
    pub fn factors(low: f64, high: f64) -> Scale {
        Scale {
            low,
            high,
            logarithmic: true,
        }
    }

    /// Returns the position of `value` on the axis, from 0 to 1.
    #[must_use]
    pub fn share(&self, value: f64) -> f64 {
        let share = match self.logarithmic {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        share.clamp(0.0, 1.0)
    }

    /// Returns the tick values.
    #[must_use]
    pub fn marks(&self) -> Vec<f64> {
        if !self.logarithmic {
            return (0..=4)
                .map(|quarter| self.high * f64::from(quarter) / 4.0)
                .collect();
        }
        let first = self.low.log10().ceil() as i32;
        let last = (self.high.log10() + 1e-9).floor() as i32;
        (first..=last).map(|power| 10f64.powi(power)).collect()
    }
}

/// Formats a number with a unit prefix: 1.5M, 300k, 20, 0.5.
#[must_use]
pub fn short(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1e9 => (value / 1e9, "G"),
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    let digits = match value {
        value if value >= 100.0 || value == value.round() => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}{unit}")
}

/// A line of a plot.
pub struct Line<'a> {
    /// The colour.
    pub colour: &'a str,
    /// The points, in axis values.
    pub points: Vec<(f64, f64)>,
    /// Positions on the horizontal axis marked at the top: stalls.
    pub marks: Vec<f64>,
}

/// A line plot.
pub struct Plot<'a> {
    /// The title, for screen readers.
    pub title: &'a str,
    /// The height.
    pub height: f64,
    /// The horizontal axis.
    pub across: Scale,
    /// Positions and labels on the horizontal axis.
    pub across_marks: Vec<(f64, String)>,
    /// The label of the horizontal axis.
    pub across_words: &'a str,
    /// The vertical axis.
    pub up: Scale,
    /// The lines.
    pub lines: Vec<Line<'a>>,
}

impl Plot<'_> {
    /// Returns the SVG element.
    #[must_use]
    pub fn svg(&self) -> String {
        let (inner, high) = (WIDTH - LEFT - EDGE, self.height - BELOW - EDGE);
        let x = |value: f64| LEFT + inner * self.across.share(value);
        let y = |value: f64| EDGE + high * (1.0 - self.up.share(value));
        let mut svg = begin(self.height, self.title);
        for mark in self.up.marks() {
            let at = y(mark);
            let _ = write!(
                svg,
                "<path class=grid d=\"M{LEFT} {at:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=end>{}</text>",
                WIDTH - EDGE,
                LEFT - 6.0,
                at + 4.0,
                short(mark)
            );
        }
        for (mark, words) in &self.across_marks {
            let at = x(*mark);
            let _ = write!(
                svg,
                "<path class=grid d=\"M{at:.1} {EDGE}V{:.1}\"/><text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=middle>{}</text>",
                EDGE + high,
                EDGE + high + 15.0,
                escaped(words)
            );
        }
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=middle>{}</text>",
            LEFT + inner / 2.0,
            self.height - 5.0,
            escaped(self.across_words)
        );
        for line in &self.lines {
            let mut path = String::new();
            for (at, (across, up)) in line.points.iter().enumerate() {
                let command = if at == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{command}{:.1} {:.1}", x(*across), y(*up));
            }
            let colour = line.colour;
            let _ = write!(svg, "<path class=line stroke=\"{colour}\" d=\"{path}\"/>");
            for mark in &line.marks {
                let _ = write!(
                    svg,
                    "<path fill=\"{colour}\" d=\"M{:.1} {:.1}l-4 -8h8z\"/>",
                    x(*mark),
                    EDGE + 8.0
                );
            }
        }
        svg.push_str("</svg>");
        svg
    }
}

/// A bar with its spread.
pub struct Bar {
    /// The label; empty for further bars of a group.
    pub words: String,
    /// The colour.
    pub colour: &'static str,
    /// True for a lighter shade.
    pub pale: bool,
    /// The length.
    pub value: f64,
    /// Lower end of the spread.
    pub low: f64,
    /// Upper end of the spread.
    pub high: f64,
}

/// Draws bars from 1.0 to the right (more) or left (less), on a logarithmic scale.
#[must_use]
pub fn ratio_bars(title: &str, bars: &[Bar]) -> String {
    const ROW: f64 = 18.0;
    const WORDS: f64 = 210.0;
    const VALUES: f64 = 48.0;
    let known = || bars.iter().filter(|bar| bar.value > 0.0);
    let least = known()
        .map(|bar| bar.low.min(bar.value))
        .fold(0.5, f64::min);
    let most = known()
        .map(|bar| bar.high.max(bar.value))
        .fold(2.0, f64::max);
    let scale = Scale::factors(least / 1.1, most * 1.1);
    let height = ROW * bars.len() as f64 + 30.0;
    let x = |value: f64| WORDS + (WIDTH - WORDS - VALUES) * scale.share(value);
    let mut svg = begin(height, title);
    let bottom = height - 22.0;
    for mark in [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0] {
        if mark < least / 1.1 || mark > most * 1.1 {
            continue;
        }
        let class = if mark == 1.0 { "one" } else { "grid" };
        let _ = write!(
            svg,
            "<path class={class} d=\"M{0:.1} 0V{bottom:.1}\"/><text x=\"{0:.1}\" y=\"{1:.1}\" text-anchor=middle>{mark}</text>",
            x(mark),
            bottom + 15.0
        );
    }
    for (row, bar) in bars.iter().enumerate() {
        let top = ROW * row as f64 + 3.0;
        let middle = top + 6.0;
        let (from, to) = (x(1.0).min(x(bar.value)), x(1.0).max(x(bar.value)));
        let word = middle + 4.0;
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{word:.1}\" text-anchor=end>{}</text>",
            WORDS - 6.0,
            escaped(&bar.words)
        );
        let _ = write!(
            svg,
            "<rect x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"12\" fill=\"{}\" opacity=\"{}\"/>",
            (to - from).max(1.0),
            bar.colour,
            if bar.pale { 0.55 } else { 1.0 }
        );
        let _ = write!(
            svg,
            "<path class=whisker d=\"M{:.1} {middle:.1}H{:.1}\"/><text x=\"{:.1}\" y=\"{word:.1}\">{:.2}</text>",
            x(bar.low),
            x(bar.high),
            WIDTH - VALUES + 6.0,
            bar.value
        );
    }
    svg.push_str("</svg>");
    svg
}

fn begin(height: f64, title: &str) -> String {
    let title = escaped(title);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=img aria-label=\"{title}\"><title>{title}</title>"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_mapped_to_scales() {
        let linear = Scale::linear(200.0);
        assert_eq!((linear.share(50.0), linear.share(900.0)), (0.25, 1.0));
        assert_eq!(
            Scale::rounded(88_500.0).marks(),
            [0.0, 25e3, 50e3, 75e3, 100e3]
        );
        let decades = Scale::decades(3.0, 420.0);
        assert_eq!(decades.marks(), [1.0, 10.0, 100.0, 1000.0]);
        assert!((decades.share(10.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(Scale::decades(10.0, 10.0).marks(), [10.0, 100.0]);
        assert!(Scale::linear(0.0).share(0.0) == 0.0);
    }

    #[test]
    fn texts_are_safe_and_numbers_short() {
        assert_eq!(escaped("a<b>&\"c\""), "a&lt;b&gt;&amp;&quot;c&quot;");
        let numbers = [1_500_000.0, 300_000.0, 20.0, 0.5, 12.34].map(short);
        assert_eq!(numbers, ["1.50M", "300k", "20", "0.50", "12.3"]);
    }

    #[test]
    fn a_bar_starts_at_one() {
        let bar = |value| Bar {
            words: "x".into(),
            colour: COLOURS[0],
            pale: false,
            value,
            low: value,
            high: value,
        };
        let svg = ratio_bars("ratios", &[bar(2.0), bar(0.5)]);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(
            svg.contains(">2.00</text>") && svg.contains(">0.50</text>"),
            "{svg}"
        );
        assert!(!svg.contains("NaN"), "{svg}");
    }
}
