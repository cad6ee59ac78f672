"""A little SVG: text, lines, bars and scales, in colours for light and dark surroundings."""
import math
from xml.sax.saxutils import escape

# name: light, dark
COLOURS = {
    "surface": ("#ffffff", "#1a1a19"),
    "ink": ("#1f1f1d", "#f2f1ec"),
    "quiet": ("#6b6a64", "#a8a79f"),
    "grid": ("#e4e3de", "#383835"),
    "rql": ("#2a78d6", "#4b97ee"),
    "own": ("#1b8f6a", "#2fb98c"),
    "spin": ("#6a4fc4", "#a497f0"),
    "postgres": ("#d9581f", "#f0814d"),
    "other": ("#8d8c85", "#85847d"),
}
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


class Picture:
    """Elements in drawing order. Colours are names of COLOURS."""

    def __init__(self, width, height, title):
        self.width = width
        self.height = height
        self.parts = [f"<title>{escape(title)}</title>"]
        self.rect(0, 0, width, height, "surface")
        self.text(16, 26, title, size=15, weight=600)

    def text(self, x, y, text, colour="ink", size=12, anchor="start", weight=400):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="f-{colour}" font-size="{size}" '
            f'text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>')

    def rect(self, x, y, width, height, colour, radius=0):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" '
            f'rx="{radius}" class="f-{colour}"/>')

    def line(self, points, colour, width=1.0, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" class="s-{colour}" stroke-width="{width}" '
            f'stroke-linejoin="round" stroke-linecap="round"{dashed}/>')

    def dot(self, x, y, colour, radius=4.0):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" class="f-{colour}"/>')

    def render(self):
        light, dark = ("".join(f".f-{name}{{fill:{pair[i]}}}.s-{name}{{stroke:{pair[i]}}}"
                               for name, pair in COLOURS.items()) for i in (0, 1))
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" font-family="{FONT}">\n'
            f"<style>{light}@media (prefers-color-scheme: dark){{{dark}}}</style>\n"
            + "\n".join(self.parts) + "\n</svg>\n")


def nice_ticks(top, wanted=5):
    """Round steps from 0 to at least `top`."""
    raw = top / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= raw)
    return [step * i for i in range(math.ceil(top / step - 1e-9) + 1)]


def short(value):
    """1234 is "1,234", 0.5 is "0.5", 2.0 is "2"."""
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def spread_labels(wanted, gap, low, high):
    """Positions near the wanted ones, at least `gap` apart, within low and high."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = {}
    last = low - gap
    for i in order:
        last = max(wanted[i], last + gap)
        placed[i] = last
    over = max(0.0, last - high)
    for i in reversed(order):
        placed[i] = min(placed[i], high) if over else placed[i]
        high = placed[i] - gap
    return [placed[i] for i in range(len(wanted))]


class Chart:
    """Lines over named places on x; y is linear and begins at 0."""

    def __init__(self, picture, box, places, top):
        self.picture = picture
        self.left, self.top, self.right, self.bottom = box
        self.places = places
        self.ticks = nice_ticks(top)
        self.labels = []  # y, text, colour

    def x(self, place):
        return self.left + 14 + (self.right - self.left - 28) * self.places.index(place) / max(
            len(self.places) - 1, 1)

    def y(self, value):
        return self.bottom - (self.bottom - self.top) * min(value / self.ticks[-1], 1)

    def axes(self, title, x_title, y_title):
        picture = self.picture
        if title:
            picture.text(self.left, self.top - 26, title, weight=600)
        picture.text(self.left, self.top - 10, y_title, "quiet", 11)
        for tick in self.ticks:
            y = self.y(tick)
            picture.line([(self.left, y), (self.right, y)], "grid")
            picture.text(self.left - 7, y + 4, short(tick), "quiet", 11, "end")
        for place in self.places:
            picture.text(self.x(place), self.bottom + 17, short(place), "quiet", 11, "middle")
        picture.text((self.left + self.right) / 2, self.bottom + 34, x_title, "quiet", 11, "middle")

    def level(self, value, text):
        y = self.y(value)
        self.picture.line([(self.left, y), (self.right, y)], "quiet", 1, "2 4")
        self.labels.append((y, text, "quiet"))

    def series(self, rows, name, colour, dash=""):
        """rows: place, value and, if known, its quartiles."""
        points = [(self.x(row[0]), self.y(row[1])) for row in rows]
        if not points:
            return
        for row, (x, _) in zip(rows, points):
            if len(row) > 2:
                self.picture.line([(x, self.y(row[2])), (x, self.y(row[3]))], colour, 1.5)
        self.picture.line(points, colour, 2, dash)
        for x, y in points:
            self.picture.dot(x, y, colour)
        self.labels.append((points[-1][1], name, colour))

    def finish(self):
        """Names at the ends of their lines, moved apart."""
        places = spread_labels([y for y, _, _ in self.labels], 15, self.top, self.bottom)
        for y, (_, text, colour) in zip(places, self.labels):
            self.picture.text(self.right + 8, y + 4, text, colour, 11.5, weight=600)
