"""The stubs say what the extension has: no more, no less, with the same names of arguments."""

import ast
import inspect

import lowtail
from lowtail import _lowtail


def of_stub(root):
    tree = ast.parse((root / "crates" / "python" / "lowtail" / "_lowtail.pyi").read_text(encoding="utf-8"))
    functions, classes = {}, {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    return functions, classes


def arguments(node):
    names = [argument.arg for argument in node.args.posonlyargs + node.args.args + node.args.kwonlyargs]
    return [name for name in names if name not in ("self", "cls")]


def is_property(node):
    return any(isinstance(one, ast.Name) and one.id == "property" for one in node.decorator_list)


def check(node, actual, where):
    if is_property(node):
        assert inspect.isgetsetdescriptor(actual) or isinstance(actual, property), where
        return
    try:
        signature = inspect.signature(actual)
    except ValueError:
        return
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    assert arguments(node) == names, f"{where}: the stub has {arguments(node)}, the extension {names}"


def test_stubs_are_true(root):
    functions, classes = of_stub(root)
    public = {name for name in vars(_lowtail) if not name.startswith("_")}
    assert public == set(functions) | set(classes)
    for name, node in functions.items():
        check(node, getattr(_lowtail, name), name)
    for name, members in classes.items():
        actual = getattr(_lowtail, name)
        for member, node in members.items():
            if member not in ("__new__", "__init__"):
                check(node, getattr(actual, member), f"{name}.{member}")
        shown = {member for member in vars(actual) if not member.startswith("_")}
        said = {member for member in members if not member.startswith("_")}
        assert shown == said, f"{name}: {shown ^ said}"


def test_everything_public_has_words():
    for name in lowtail.__all__:
        public = getattr(lowtail, name)
        if name != "__version__":
            assert (inspect.getdoc(public) or "").strip(), name
    for kind in vars(_lowtail).values():
        if inspect.isclass(kind):
            for name, member in vars(kind).items():
                if not name.startswith("_"):
                    assert (inspect.getdoc(member) or "").strip(), f"{kind.__name__}.{name}"
