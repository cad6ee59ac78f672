"""Mistakes in C, made by operators: what a parser can tell of a function is enough to make them.

negate    a condition: of `if`, a loop or `?:`, a part of one, or a comparison whose value is used
logic     && becomes ||, and || becomes &&
bound     < becomes <=, and the like; without those of microseconds, where one more or less is no mistake
constant  one more; without those of 100 and above: a thousandth more is no mistake
sum       + becomes -, and - becomes +
swap      two arguments of one type, or the operands of -, / and %
return    another value: the opposite, 0 or NULL
drop      a statement that is an expression: a call, an assignment

Left alone: what a macro makes, constant expressions, and the arguments of functions that format text.
"""
import pathlib
import re
import sys

from mutant import Mutant, squeezed

try:
    from clang import cindex
except ImportError:  # a Python that is not Debian's
    sys.path.append("/usr/lib/python3/dist-packages")
    from clang import cindex

from clang.cindex import CursorKind, TypeKind

OTHER_BOUND = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
OTHER_LOGIC = {"&&": "||", "||": "&&"}
OTHER_SUM = {"+": "-", "-": "+", "+=": "-=", "-=": "+="}
COMPARISONS = {"==", "!=", *OTHER_BOUND}
ORDERED = {"-", "/", "%"}
SMALL = 100
INTEGERS = {TypeKind.INT, TypeKind.UINT, TypeKind.LONG, TypeKind.ULONG, TypeKind.LONGLONG, TypeKind.ULONGLONG,
            TypeKind.SHORT, TypeKind.USHORT, TypeKind.CHAR_S, TypeKind.SCHAR, TypeKind.UCHAR}
LEFT_ALONE = {CursorKind.CXX_UNARY_EXPR, CursorKind.STRUCT_DECL}  # sizeof; sizes of arrays
CONDITIONS = {  # which of the parts it is
    CursorKind.IF_STMT: 0, CursorKind.WHILE_STMT: 0, CursorKind.DO_STMT: 1, CursorKind.CONDITIONAL_OPERATOR: 0}


def closed(words):
    """As an operand of any operator."""
    return words if re.fullmatch(r"\w+((->|\.)\w+|\[\w+\])*(\([^()]*\))?", words) else f"({words})"


class Walk:
    """Goes through the functions of one file, and notes what can be changed."""

    def __init__(self, unit, file, path, text):
        self.path, self.text = path, text
        self.function = ""
        self.found = []
        self.macros = []
        for cursor in unit.cursor.get_children():
            where = cursor.location.file
            if where is None or where.name != file:
                continue
            if cursor.kind == CursorKind.MACRO_INSTANTIATION:
                self.macros.append((cursor.extent.start.offset, cursor.extent.end.offset))
            elif cursor.kind == CursorKind.FUNCTION_DECL and cursor.is_definition():
                self.function = cursor.spelling
                self.result = cursor.result_type.get_canonical()
                for child in cursor.get_children():
                    if child.kind == CursorKind.COMPOUND_STMT:
                        self.visit(child)

    def span(self, cursor):
        return cursor.extent.start.offset, cursor.extent.end.offset

    def words(self, cursor):
        start, end = self.span(cursor)
        return self.text[start:end]

    def is_made_by_macro(self, span):
        """Is it one, or a part of one?"""
        return any(start <= span[0] and span[1] <= end for start, end in self.macros)

    def cuts_macro(self, span):
        """Does it begin or end inside of one?"""
        return any(start < at < end for at in span for start, end in self.macros)

    def note(self, operator, token, span, instead):
        words = self.text[span[0]:span[1]]
        if words and words != instead and "\n#" not in words and not self.cuts_macro(span):
            self.found.append(Mutant(self.function, operator, squeezed(token), self.path, *span, instead))

    def visit(self, cursor):
        if cursor.kind in LEFT_ALONE or self.is_made_by_macro(self.span(cursor)):
            return
        children = list(cursor.get_children())
        if cursor.kind == CursorKind.VAR_DECL:
            children = self.initializer(cursor, children)
        elif cursor.kind == CursorKind.CASE_STMT:
            children = children[1:]
            self.drop(children)
        elif cursor.kind in (CursorKind.COMPOUND_STMT, CursorKind.DEFAULT_STMT):
            self.drop(children)
        elif cursor.kind in CONDITIONS:
            self.negate(children[CONDITIONS[cursor.kind]])
        elif cursor.kind == CursorKind.FOR_STMT:
            self.negate_bound_of_loop(cursor, children)
        elif cursor.kind == CursorKind.BINARY_OPERATOR:
            self.change_binary(cursor, *children)
        elif cursor.kind == CursorKind.COMPOUND_ASSIGNMENT_OPERATOR:
            self.change_assignment(cursor, *children)
        elif cursor.kind == CursorKind.INTEGER_LITERAL:
            self.change_literal(cursor)
        elif cursor.kind == CursorKind.DECL_REF_EXPR:
            self.change_enumerator(cursor)
        elif cursor.kind == CursorKind.RETURN_STMT and children:
            self.change_return(children[0])
        elif cursor.kind == CursorKind.CALL_EXPR:
            if self.formats_text(cursor):
                return
            self.swap_arguments(cursor)
        for child in children:
            self.visit(child)

    # ---- what is looked at ----

    def initializer(self, cursor, children):
        """Of a variable what its value is made of; of a static one nothing."""
        if cursor.storage_class == cindex.StorageClass.STATIC:
            return []
        equals = re.compile(r"=").search(self.text, cursor.location.offset, cursor.extent.end.offset)
        values = [child for child in children if equals and child.extent.start.offset >= equals.end()]
        for value in values:
            self.negate_value(value)
        return values

    @staticmethod
    def is_floating(cursor):
        return cursor.type.get_canonical().kind in (TypeKind.DOUBLE, TypeKind.FLOAT)

    @staticmethod
    def formats_text(call):
        callee = call.referenced
        return callee is not None and callee.type.kind == TypeKind.FUNCTIONPROTO and callee.type.is_function_variadic()

    def operator_between(self, left, right):
        gap = self.text[left.extent.end.offset:right.extent.start.offset]
        return re.sub(r"/\*.*?\*/|//[^\n]*|[\s()]", "", gap, flags=re.S)

    def is_chain(self, cursor, operator):
        """Is it a part of the same chain, as `a && b` in front of `&& c`?"""
        return cursor.kind == CursorKind.BINARY_OPERATOR and not self.is_made_by_macro(self.span(cursor)) \
            and self.operator_between(*cursor.get_children()) == operator

    # ---- the operators ----

    def negate(self, condition):
        words = self.words(condition)
        self.note("negate", words, self.span(condition), f"!({words})")

    def negate_value(self, cursor):
        """A comparison, or what && and || make, where its value is used."""
        inner = cursor
        while inner.kind in (CursorKind.UNEXPOSED_EXPR, CursorKind.PAREN_EXPR):
            below = list(inner.get_children())
            if len(below) != 1:
                return
            inner = below[0]
        if inner.kind == CursorKind.BINARY_OPERATOR and not self.is_made_by_macro(self.span(inner)):
            operator = self.operator_between(*inner.get_children())
            if operator in COMPARISONS or operator in OTHER_LOGIC:
                self.negate(cursor)

    def negate_bound_of_loop(self, cursor, children):
        """The condition is between the semicolons."""
        depth, semicolons = 0, []
        for at in range(cursor.extent.start.offset, cursor.extent.end.offset):
            depth += (self.text[at] == "(") - (self.text[at] == ")")
            if self.text[at] == ";" and depth == 1:
                semicolons.append(at)
            if depth == 0 and semicolons:
                break
        if len(semicolons) == 2:
            for child in children:
                start, end = self.span(child)
                if semicolons[0] < start and end <= semicolons[1]:
                    self.negate(child)

    def change_binary(self, cursor, left, right):
        operator = self.operator_between(left, right)
        first, second, span = self.words(left), self.words(right), self.span(cursor)
        kind = cursor.type.get_canonical().kind
        if operator in OTHER_LOGIC:
            for part in left, right:
                if not self.is_chain(part, operator):
                    self.negate(part)
            self.note("logic", operator, span, f"({first} {OTHER_LOGIC[operator]} {second})")
        elif operator in OTHER_BOUND and not re.search(r"_us\b", first + second) and not self.is_floating(left):
            self.note("bound", operator, span, f"{first} {OTHER_BOUND[operator]} {second}")
        elif operator in OTHER_SUM and kind in INTEGERS:
            self.note("sum", operator, span, f"{first} {OTHER_SUM[operator]} {second}")
        if operator in ORDERED and first != second and kind in INTEGERS:
            self.note("swap", operator, span, f"{closed(second)} {operator} {closed(first)}")
        if operator == "=":
            self.negate_value(right)

    def change_assignment(self, cursor, left, right):
        operator = self.operator_between(left, right)
        if operator in OTHER_SUM and left.type.get_canonical().kind in INTEGERS:
            instead = f"{self.words(left)} {OTHER_SUM[operator]} {self.words(right)}"
            self.note("sum", operator, self.span(cursor), instead)

    def change_literal(self, cursor):
        words, span = self.words(cursor), self.span(cursor)
        number = re.fullmatch(r"(\d+)([uUlL]*)", words)
        if number and int(number[1]) < SMALL and not re.match(r"\s*\]\s*=[^=]", self.text[span[1]:span[1] + 20]):
            self.note("constant", words, span, f"{int(number[1]) + 1}{number[2]}")

    def change_enumerator(self, cursor):
        """Of an enum without a name: those are constants."""
        one = cursor.referenced
        if one is not None and one.kind == CursorKind.ENUM_CONSTANT_DECL and not one.semantic_parent.spelling:
            if abs(one.enum_value) < SMALL and len(list(one.semantic_parent.get_children())) <= 8:
                self.note("constant", cursor.spelling, self.span(cursor), f"({cursor.spelling} + 1)")

    def change_return(self, value):
        words, kind = self.words(value), self.result.kind
        self_evident = words in ("0", "NULL", "RQL_OK")
        if kind == TypeKind.BOOL:
            self.note("return", words, self.span(value), f"!({words})")
        elif kind == TypeKind.POINTER and not self_evident:
            self.note("return", words, self.span(value), "NULL")
        elif (kind in INTEGERS or kind == TypeKind.ENUM) and not self_evident:
            self.note("return", words, self.span(value), "0")

    def swap_arguments(self, call):
        arguments = list(call.get_arguments())
        spans = [self.span(argument) for argument in arguments]
        types = [argument.type.get_canonical().spelling for argument in arguments]
        for i, kind in enumerate(types):
            if kind in types[i + 1:]:
                j = types.index(kind, i + 1)
                first, second = self.words(arguments[i]), self.words(arguments[j])
                start, end = self.span(call)
                if first != second and start < spans[i][0] and spans[i][1] <= spans[j][0] and spans[j][1] < end:
                    swapped = (self.text[start:spans[i][0]] + second + self.text[spans[i][1]:spans[j][0]] + first
                               + self.text[spans[j][1]:end])
                    self.note("swap", call.spelling or "call", (start, end), swapped)

    def drop(self, statements):
        for statement in statements:
            start, end = self.span(statement)
            semicolon = re.compile(r"\s*;").match(self.text, end)
            if statement.kind.is_expression() and semicolon and not any(at <= start < to for at, to in self.macros):
                words = self.words(statement)
                name = statement.spelling if statement.kind == CursorKind.CALL_EXPR else words
                is_only_used = re.fullmatch(r"\(void\)[\w, ]+", words)
                if not is_only_used and name != "free":
                    self.note("drop", name or words, (start, semicolon.end()), "")


# ---- whole files ----

def arguments_of(folder, words):
    """What of a compiler's command a parser needs. Paths are relative to the folder."""
    found = []
    for word, after in zip(words, [*words[1:], ""]):
        option = re.match("-isystem|-include|-I", word)
        if option:
            found += [option[0], str(pathlib.Path(folder, word[option.end():] or after))]
        elif word.startswith(("-D", "-U", "-std=")):
            found.append(word)
    return found


def mutants_of(file, arguments, tree, wanted):
    """Those of a file that is compiled with these arguments, and of the headers that it includes, where they are
    wanted: paths below the tree. Their names have no number yet."""
    options = cindex.TranslationUnit.PARSE_DETAILED_PROCESSING_RECORD
    unit = cindex.Index.create().parse(str(file), arguments, options=options)
    worst = [str(one) for one in unit.diagnostics if one.severity >= cindex.Diagnostic.Error]
    if worst:
        raise ValueError(f"{file} cannot be parsed: {worst[0]}")
    files = {str(file), *(str(one.include.name) for one in unit.get_includes())}
    found = []
    for name in sorted(files):
        path = pathlib.Path(name).resolve()
        if path.is_relative_to(tree) and str(path.relative_to(tree)) in wanted:
            text = path.read_text("latin-1")  # offsets are of bytes
            found += Walk(unit, name, str(path.relative_to(tree)), text).found
    return found
