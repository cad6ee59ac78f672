"""Mistakes in Lua, made by operators on tokens.

negate    the condition of `if` or `elseif`; == becomes ~=, and ~= becomes ==
logic     `and` becomes `or`, and `or` becomes `and`
bound     < becomes <=, and the like
constant  one more, also in a text of digits; without those of 100 and above
sum       + becomes -, and - becomes +
swap      two names that are arguments, one behind the other
drop      a call or an assignment that is a line
"""
import re

from mutant import Mutant, squeezed
from place import CLOSE, OPEN, definitions_of, tokens_of

OTHER = {"==": ("negate", "~="), "~=": ("negate", "=="), "and": ("logic", "or"), "or": ("logic", "and"),
         "<": ("bound", "<="), "<=": ("bound", "<"), ">": ("bound", ">="), ">=": ("bound", ">"),
         "+": ("sum", "-"), "-": ("sum", "+")}
KEYWORDS = {"if", "elseif", "else", "end", "for", "while", "repeat", "until", "return", "local", "function", "break",
            "do", "then"}
NAME = re.compile(r"[A-Za-z_]\w*")
CONTINUED = {"and", "or", "..", "+", "-", "*", "/", "=", ",", "(", "{", "==", "~=", "<", ">", "<=", ">=", "not"}


class Walk:
    def __init__(self, path, text):
        self.path, self.text = path, text
        self.tokens = tokens_of(text, "lua")
        self.definitions = definitions_of(text, "lua")
        self.found = []
        for i, token in enumerate(self.tokens):
            self.change(i, token)
        self.drop_lines()

    def definition_at(self, start):
        around = [one for one in self.definitions if one.start <= start < one.end]
        return min(around, key=lambda one: one.end - one.start).name if around else self.path.split("/")[-1]

    def note(self, operator, token, start, end, instead):
        self.found.append(Mutant(self.definition_at(start), operator, squeezed(token), self.path, start, end, instead))

    def text_at(self, i):
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def change(self, i, token):
        before = self.text_at(i - 1)
        is_operand = bool(re.match(r"[\w\"')\]]", before)) and before not in KEYWORDS
        if token.text in ("if", "elseif"):
            end = next(j for j in range(i, len(self.tokens)) if self.text_at(j) == "then")
            start, stop = self.tokens[i + 1].start, self.tokens[end - 1].end
            condition = self.text[start:stop]
            self.note("negate", condition, start, stop, f"not ({condition})")
        elif token.text in OTHER and (is_operand or token.text not in ("+", "-")):
            operator, instead = OTHER[token.text]
            self.note(operator, token.text, token.start, token.end, instead)
        digits = re.fullmatch(r'("?)(\d{1,2})("?)', token.text)
        if digits:
            self.note("constant", token.text, token.start, token.end, f"{digits[1]}{int(digits[2]) + 1}{digits[3]}")
        if token.text == "," and self.are_arguments(i):
            first, second = self.tokens[i - 1], self.tokens[i + 1]
            self.note("swap", f"{first.text}, {second.text}", first.start, second.end, f"{second.text}, {first.text}")

    def are_arguments(self, i):
        """Are the two beside a comma names, between parentheses of a call?"""
        if not (NAME.fullmatch(self.text_at(i - 1)) and NAME.fullmatch(self.text_at(i + 1))):
            return False
        if self.text_at(i - 2) not in ("(", ",") or self.text_at(i + 2) not in (")", ","):
            return False
        depth = 0
        for j in range(i, -1, -1):
            depth += (self.text_at(j) in CLOSE) - (self.text_at(j) in OPEN)
            if depth < 0:
                return self.text_at(j) == "(" and bool(NAME.fullmatch(self.text_at(j - 1))) \
                    and self.text_at(j - 1) not in KEYWORDS | {"min", "max"} and self.text_at(j - 2) != "function"
        return False

    def drop_lines(self):
        lines = {}
        for token in self.tokens:
            lines.setdefault(self.text.count("\n", 0, token.start), []).append(token)
        numbers = sorted(lines)
        for number, after in zip(numbers, [*numbers[1:], None]):
            words = [token.text for token in lines[number]]
            if words[0] in KEYWORDS or not NAME.fullmatch(words[0]) or words[-1] in CONTINUED:
                continue
            if after is not None and lines[after][0].text in CONTINUED:
                continue
            depth = sum((word in OPEN) - (word in CLOSE) for word in words)
            if depth == 0 and ("=" in words or words[-1] == ")"):
                start, end = lines[number][0].start, lines[number][-1].end
                self.note("drop", self.text[start:end], start, end, "")


def mutants_of(path, text):
    return Walk(path, text).found
