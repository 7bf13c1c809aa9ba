"""The engine of an exported page beside the server of the same run."""

import json

from regard.server.bundle import bundled_script
from regard.server.static_page import engine_file


class Engine:
    """The engine of a folder, asked inside a page that was opened from the disk."""

    def __init__(self, page):
        self.page = page
        parts = "{ send: $send.send, ...$tokenizer, ...$sampler }"
        script = f"(() => {{ {bundled_script('send', engine_file)} return {parts}; }})()"
        page.add_script_tag(content=f"globalThis.engine = {script};")

    def __call__(self, path, body=None):
        """Status and text."""
        ask = """async ([path, body]) => {
            const answer = await engine.send(path, body ? { body: JSON.stringify(body) } : {});
            return [answer.status, await answer.text()];
        }"""
        return tuple(self.page.evaluate(ask, [path, body]))

    def tokenized(self, tokenizer, texts):
        """All tokens as they are shown; of each text its ids, where they stand, and back again."""
        read = """([file, texts]) => {
            const one = new engine.Tokenizer(file);
            return [one.tokens([...file.tokens.keys()]), texts.map((text) => {
                const count = (at) => [...text.slice(0, at)].length;
                const ids = one.encode(text);
                return [ids, one.offsets(text).map((span) => span.map(count)), one.decode(ids)];
            })];
        }"""
        return self.page.evaluate(read, [tokenizer, texts])

    def distribution(self, log_probs, how):
        """The probabilities that a token is drawn with."""
        draw = "([ones, how]) => Array.from(engine.distribution(Float64Array.from(ones), how))"
        return self.page.evaluate(draw, [log_probs, how])


class Both:
    """The engine of a run's page and the server of the run, asked the same."""

    def __init__(self, engine, server):
        self.engine, self.server = engine, server

    def __call__(self, path, body=None):
        """Both answers: (status, text) each."""
        asked = self.server.get(path) if body is None else self.server.post(path, json=body)
        return self.engine(path, body), (asked.status_code, asked.text)

    def agree(self, path, body=None):
        """Both answer, and alike."""
        (status, ours), (expected, theirs) = self(path, body)
        assert (status, expected) == (200, 200), (ours, theirs)
        same(json.loads(ours), json.loads(theirs), f"{path} {body} ")


def same(ours, theirs, where=""):
    """Numbers within 1e-4, all else as it is."""
    numbers = int | float
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for key, value in theirs.items():
            same(ours[key], value, f"{where}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for i, value in enumerate(theirs):
            same(ours[i], value, f"{where}[{i}]")
    elif isinstance(theirs, numbers) and not isinstance(theirs, bool):
        assert abs(ours - theirs) <= 1e-4, f"{where}: {ours} beside {theirs}"
    else:
        assert ours == theirs, where


def told(text):
    """The last of the server-sent events."""
    return json.loads(text.strip().rpartition("data: ")[2])
