"""Requests that are legal, if odd, and must be answered: (path, body, text of the first choice). The body is a JSON value, or bytes
as they are. Against the scripted model: a conversation that begins with a user gets `HI`, one that begins with the system `FOX`."""
from bad_requests import CHAT, TEXT, USER
from server import SCRIPTS, letter

HI, FOX = SCRIPTS[3], SCRIPTS[2]
CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}


def chat(text=HI, messages=None, **fields):
    return CHAT, {"messages": messages or USER, **fields}, text


def text(said=FOX, prompt=letter(2), **fields):
    return TEXT, {"prompt": prompt, **fields}, said


def after(*messages):
    return chat(messages=[*USER, *messages, *USER])


CASES = [
    # Messages: parts, roles, and what clients send back of an answer they got.
    chat(messages=[{"role": "user", "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]}]),
    chat(messages=[{"role": "user", "content": []}]), chat(messages=[{"role": "user", "content": ""}]),
    chat(FOX, [{"role": "system", "content": "s"}, *USER]), chat(FOX, [{"role": "developer", "content": "d"}, *USER]),
    chat(FOX, [{"role": "system", "content": "s"}, {"role": "developer", "content": "d"}, *USER]),
    chat(messages=[{"role": "user", "content": "a", "name": "n"}]), chat(messages=[*USER, *USER]),
    after({"role": "assistant", "content": "x", "refusal": None, "annotations": [], "audio": None, "function_call": None, "tool_calls": None}),
    after({"role": "assistant", "content": "x", "annotations": None, "tool_calls": []}),
    after({"role": "assistant", "content": None, "refusal": "no"}),
    after({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}), after({"role": "assistant", "content": "x", "reasoning_content": "r"}),
    after({"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "content": [{"type": "text", "text": "r"}], "tool_call_id": "1"}),
    # null is the default.
    chat(**dict.fromkeys(("model", "max_tokens", "max_completion_tokens", "temperature", "top_p", "n", "stop", "stream", "stream_options", "logprobs",
                          "top_logprobs", "logit_bias", "seed", "user", "tools", "tool_choice", "functions", "function_call", "response_format", "metadata",
                          "store", "service_tier", "parallel_tool_calls", "modalities", "audio", "prediction", "reasoning_effort", "bad_words",
                          "prompt_logprobs", "frequency_penalty", "presence_penalty", "web_search_options", "verbosity"))),
    text(**dict.fromkeys(("model", "max_tokens", "suffix", "best_of", "echo", "logprobs", "stop", "stream", "stream_options", "user", "n", "logit_bias",
                          "bad_words", "prompt_logprobs", "truncate_prompt_tokens"))),
    # Values that say what is the default anyway.
    chat(tools=[], tool_choice="none", parallel_tool_calls=True), chat(tool_choice="auto", functions=[], function_call="none"),
    chat(response_format={"type": "text"}, modalities=["text"], store=False, service_tier="auto"), chat(service_tier="default", documents=[]),
    chat(user="u", metadata={"k": "v"}, safety_identifier="s", prompt_cache_key="p"), chat(logit_bias={}, stop=[], bad_words=[], stop_token_ids=[]),
    chat(logprobs=False), chat(logprobs=True, top_logprobs=0), chat(top_k=-1, min_p=0, repetition_penalty=1, typical_p=1),
    chat(stream=False, stream_options=None), text(suffix=""), text(best_of=1), text(best_of=3, n=3), text(bad_words=["zzz"], allowed_token_ids=None),
    text(truncate_prompt_tokens=None, skip_special_tokens=True, spaces_between_special_tokens=True, include_stop_str_in_output=False, use_beam_search=False),
    # Other ways to say the same.
    chat(HI[:2], max_completion_tokens=2), chat(HI[:2], max_tokens=2.0), chat(HI[:2], max_tokens=9, max_completion_tokens=2), chat("Hi ", stop="there"),
    chat("Hi ", stop=["there"]), chat("Hi ", stop=["zz", "th"]), chat(seed=-1), chat(seed=2 ** 63 - 1), chat(logit_bias={"65": -100, "66": 1.5}), chat(n=2),
    chat(temperature=0, top_p=1), chat(temperature=2.0), text(prompt=[letter(2)]), text(prompt=[ord(letter(2))]), text(prompt=[[ord(letter(2))]]),
    text(prompt=letter(2) + "\x00\u2028\U0001f600"), text(prompt=[letter(2), letter(1)]), text(letter(2) + FOX, echo=True), text("The", max_tokens=3),
    # Bodies.
    (TEXT, b'\xef\xbb\xbf{"prompt": "b"}', FOX), (TEXT, b' \r\n\t{ "prompt" :\n"b"}\r\n', FOX), (TEXT, b'{"prompt": "\\u0062"}', FOX),
    (TEXT, b'{"prompt": "b\\ud83d\\ude00"}', FOX), (TEXT, b'{"prompt": "b\\/\\u0000"}', FOX), (TEXT, b'{"prompt": "b", "seed": 1e3, "max_tokens": 3E0}', FOX[:3]),
    (TEXT, b'{"prompt": "b", "user": "' + b"x" * 300000 + b'"}', FOX),
]
