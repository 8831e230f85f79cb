"""Requests that must be refused: (path, body, status, code, param, words of the message). The body is a JSON value, or
bytes as they are. `V` is the scripted model's vocabulary, `C` the context the tests' server runs with."""
V, C = 261, 512
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USER = [{"role": "user", "content": "hi"}]

VALUE, TYPE, MISSING = "invalid_value", "invalid_type", "missing_required_parameter"
UNKNOWN, UNSUPPORTED, JSON = "unknown_parameter", "unsupported_parameter", "invalid_json"
CANNOT = "unsupported_value"
TOO_LONG = "context_length_exceeded"


def chat(code, param, words="", status=400, **fields):
    return CHAT, {"messages": USER, **fields}, status, code, param, words


def text(code, param, words="", status=400, **fields):
    return TEXT, {"prompt": "hi", **fields}, status, code, param, words


def messages(code, param, value, words=""):
    return CHAT, {"messages": value}, 400, code, param, words


def both(code, param, words="", status=400, **fields):
    return [chat(code, param, words, status, **fields), text(code, param, words, status, **fields)]


def schema(value):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}


def raw(body, code=JSON, words="", path=CHAT):
    return path, body, 400, code, None, words


CASES = [
    # Malformed bodies.
    raw(b"", words="byte"), raw(b"{", words="byte 2"), raw(b"nonsense", words="byte"), raw(b"[]", words="object"),
    raw(b"null", words="object"), raw(b'"x"', words="object"), raw(b'{"a":1,}', words="byte 8"), raw(b'{"a" 1}', words="byte 6"),
    raw(b'{"messages": [], "messages": []}', words="twice"), raw(b'{"a": "\xff"}', words="byte"), raw(b'{"a": "\xc0\x80"}', words="byte"),
    raw(b'{"a": "\xed\xa0\x80"}', words="byte"), raw(b'{"a": "\\ud800"}', words="byte"), raw(b'{"a": "\x01"}', words="byte"),
    raw(b'{"a": 01}', words="byte"), raw(b'{"a": NaN}', words="byte"), raw(b'{"a": Infinity}', words="byte"), raw(b'{"a": 1e999}', words="byte"),
    raw(b"{}{}", words="byte 3"), raw(b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}", words="nested"), raw(b"[" * 100000, words="nested"),
    raw(b'{"a":' * 70 + b"1" + b"}" * 70, words="nested"), raw(b'{"messages": ' + b"1" * 10, words="byte"),
    raw(b"{" + b",".join(b'"k%d":0' % i for i in range(20000)) + b"}", words="keys"),
    # Nothing at all, and unknown names.
    (CHAT, {}, 400, MISSING, "messages", ""), (TEXT, {}, 400, MISSING, "prompt", ""), (CHAT, {"messages": None}, 400, MISSING, "messages", ""),
    (TEXT, {"prompt": None}, 400, MISSING, "prompt", ""), *both(UNKNOWN, "temprature", temprature=1), *both(UNKNOWN, None, **{"": 1}),
    chat(UNKNOWN, "prompt", prompt="x"), text(UNKNOWN, "messages", messages=USER), text(UNKNOWN, "max_completion_tokens", max_completion_tokens=3),
    chat(UNKNOWN, "echo", echo=True),
    # The model's name.
    *both("model_not_found", "model", "scripted", 404, model="gpt-4"), *both(TYPE, "model", "a string", model=3),
    # Messages.
    messages(TYPE, "messages", "hi", "an array"), messages(TYPE, "messages", {"role": "user"}), messages(VALUE, "messages", [], "empty"),
    messages(TYPE, "messages[0]", ["hi"]), messages(TYPE, "messages[1]", [*USER, None]), messages(MISSING, "messages[0].role", [{"content": "x"}]),
    messages(TYPE, "messages[0].role", [{"role": 1, "content": "x"}]), messages(VALUE, "messages[0].role", [{"role": "root", "content": "x"}], "root"),
    messages(MISSING, "messages[0].content", [{"role": "user"}]), messages(MISSING, "messages[0].content", [{"role": "user", "content": None}]),
    messages(TYPE, "messages[0].content", [{"role": "user", "content": 7}]), messages(TYPE, "messages[0].content", [{"role": "user", "content": {}}]),
    messages(TYPE, "messages[0].content[0]", [{"role": "user", "content": ["x"]}]),
    messages(MISSING, "messages[0].content[0].type", [{"role": "user", "content": [{"text": "x"}]}]),
    messages(UNSUPPORTED, "messages[0].content[1].type",
             [{"role": "user", "content": [{"type": "text", "text": "x"}, {"type": "image_url", "image_url": {"url": "data:,"}}]}], "image_url"),
    messages(UNSUPPORTED, "messages[0].content[0].type", [{"role": "user", "content": [{"type": "input_audio"}]}]),
    messages(MISSING, "messages[0].content[0].text", [{"role": "user", "content": [{"type": "text"}]}]),
    messages(TYPE, "messages[0].content[0].text", [{"role": "user", "content": [{"type": "text", "text": 1}]}]),
    messages(UNKNOWN, "messages[0].colour", [{"role": "user", "content": "x", "colour": "red"}]),
    messages(TYPE, "messages[0].name", [{"role": "user", "content": "x", "name": 1}]),
    messages(TYPE, "messages[0].tool_calls", [{"role": "assistant", "tool_calls": "x"}]),
    messages(MISSING, "messages[0].tool_calls[0].function", [{"role": "assistant", "tool_calls": [{"id": "1"}]}]),
    messages(VALUE, "messages[0].tool_calls[0].function.arguments",
             [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}]),
    messages(UNSUPPORTED, "messages[0].function_call", [{"role": "assistant", "content": "x", "function_call": {}}]),
    # Prompts.
    (TEXT, {"prompt": 5}, 400, TYPE, "prompt", ""), (TEXT, {"prompt": {}}, 400, TYPE, "prompt", ""), (TEXT, {"prompt": []}, 400, VALUE, "prompt", "empty"),
    (TEXT, {"prompt": ""}, 400, VALUE, "prompt", "empty"), (TEXT, {"prompt": ["a", 1]}, 400, TYPE, "prompt[1]", ""),
    (TEXT, {"prompt": [[1], []]}, 400, VALUE, "prompt[1]", "empty"), (TEXT, {"prompt": ["a", ""]}, 400, VALUE, "prompt[1]", "empty"),
    (TEXT, {"prompt": [1, -1]}, 400, VALUE, "prompt[1]", "-1"), (TEXT, {"prompt": [1, "x"]}, 400, TYPE, "prompt[1]", ""),
    (TEXT, {"prompt": [1, 2.5]}, 400, VALUE, "prompt[1]", "integer"), (TEXT, {"prompt": [1, V]}, 400, VALUE, "prompt", str(V)),
    (TEXT, {"prompt": [[1], [2, 191222]]}, 400, VALUE, "prompt[1]", "191222"), (TEXT, {"prompt": [1, 2 ** 31]}, 400, VALUE, "prompt[1]", "range"),
    (TEXT, {"prompt": [1, 2 ** 63]}, 400, VALUE, "prompt[1]", "large"), (TEXT, {"prompt": ["a"] * 129}, 400, VALUE, "prompt", "128"),
    (TEXT, {"prompt": [True]}, 400, TYPE, "prompt[0]", ""),
    # Lengths.
    (TEXT, {"prompt": [1] * C}, 400, TOO_LONG, "prompt", str(C)), (TEXT, {"prompt": [1] * (C + 1)}, 400, TOO_LONG, "prompt", ""),
    (TEXT, {"prompt": [1] * 100000}, 400, TOO_LONG, "prompt", "100000"), (TEXT, {"prompt": [[1], [1] * C], "stream": True}, 400, TOO_LONG, "prompt[1]", ""),
    (CHAT, {"messages": [{"role": "user", "content": "x" * C}]}, 400, TOO_LONG, "messages", ""),
    (TEXT, {"prompt": [1] * (C - 1), "max_tokens": 2}, 400, TOO_LONG, "max_tokens", ""), *both(TOO_LONG, "max_tokens", max_tokens=10 ** 9),
    *both(VALUE, "max_tokens", "1", max_tokens=0), *both(VALUE, "max_tokens", "-1", max_tokens=-1), *both(TYPE, "max_tokens", max_tokens="5"),
    *both(VALUE, "max_tokens", max_tokens=1.5), *both(VALUE, "max_tokens", max_tokens=1e300), chat(VALUE, "max_completion_tokens", max_completion_tokens=0),
    # Sampling.
    *both(VALUE, "temperature", temperature=-1), *both(TYPE, "temperature", temperature="hot"), *both(TYPE, "temperature", temperature=True),
    *both(VALUE, "top_p", top_p=1.5), *both(VALUE, "top_p", top_p=-0.1), *both(VALUE, "top_k", top_k=-2), *both(VALUE, "top_k", top_k=1.5),
    *both(VALUE, "min_p", min_p=2), *both(TYPE, "seed", seed="x"), *both(VALUE, "seed", seed=0.5), *both(VALUE, "seed", seed=2 ** 64 - 1),
    *both(VALUE, "n", n=0), *both(VALUE, "n", n=-1), *both(VALUE, "n", n=129), *both(TYPE, "n", n="2"), *both(TYPE, "n", n=[1]),
    *both(VALUE, "n", stream=True, n=0), *both(TYPE, "ignore_eos", ignore_eos=1),
    # Stops.
    *both(VALUE, "stop", "empty", stop=""), *both(VALUE, "stop[1]", "empty", stop=["a", ""]), *both(TYPE, "stop", stop=7), *both(TYPE, "stop[0]", stop=[7]),
    *both(VALUE, "stop", "32", stop=["x"] * 33), *both(VALUE, "stop", "1024", stop="x" * 1025), *both(VALUE, "stop_token_ids[0]", stop_token_ids=[V]),
    *both(VALUE, "stop_token_ids[0]", stop_token_ids=[151645]), *both(VALUE, "stop_token_ids[1]", stop_token_ids=[1, -1]),
    *both(TYPE, "stop_token_ids", stop_token_ids=5), *both(TYPE, "stop_token_ids[0]", stop_token_ids=["AI"]),
    # Streams.
    *both(TYPE, "stream", stream="yes"), *both(VALUE, "stream_options", "stream", stream_options={"include_usage": True}),
    *both(TYPE, "stream_options", stream=True, stream_options=True), *both(TYPE, "stream_options.include_usage", stream=True, stream_options={"include_usage": 1}),
    *both(UNKNOWN, "stream_options.usage", stream=True, stream_options={"usage": True}),
    *both(UNSUPPORTED, "stream_options.continuous_usage_stats", stream=True, stream_options={"continuous_usage_stats": True}),
    # Log-probabilities.
    chat(VALUE, "top_logprobs", "20", logprobs=True, top_logprobs=21), chat(VALUE, "top_logprobs", logprobs=True, top_logprobs=-1),
    chat(VALUE, "top_logprobs", "logprobs", top_logprobs=2), chat(TYPE, "logprobs", logprobs=3), text(VALUE, "logprobs", logprobs=21),
    text(TYPE, "logprobs", logprobs=True), text(VALUE, "logprobs", logprobs=-1), text(TYPE, "echo", echo="yes"),
    *both(VALUE, "prompt_logprobs", "20", prompt_logprobs=21), *both(VALUE, "prompt_logprobs", prompt_logprobs=-1), *both(VALUE, "prompt_logprobs", prompt_logprobs=0.5),
    *both(TYPE, "prompt_logprobs", prompt_logprobs=True), *both(VALUE, "prompt_logprobs", "stream", prompt_logprobs=0, stream=True),
    *both(VALUE, "n", "max_tokens", prompt_logprobs=1, max_tokens=0, n=2),
    # The template's arguments.
    chat(TYPE, "chat_template_kwargs", chat_template_kwargs=[1]), chat(TYPE, "add_generation_prompt", add_generation_prompt="no"),
    # Controls of sampling.
    *both(TYPE, "logit_bias", logit_bias=[1]), *both(VALUE, "logit_bias.x", logit_bias={"x": 1}), *both(TYPE, "logit_bias.1", logit_bias={"1": "a"}),
    *both(VALUE, "logit_bias", "-100", logit_bias={"1": 101}), *both(VALUE, "logit_bias", logit_bias={str(V): 1}), *both(VALUE, "min_tokens", min_tokens=-1),
    *both(VALUE, "min_tokens", min_tokens=5, max_tokens=4), *both(VALUE, "frequency_penalty", "2", frequency_penalty=2.5), *both(VALUE, "presence_penalty", presence_penalty=-3),
    *both(VALUE, "repetition_penalty", repetition_penalty=0), *both(VALUE, "typical_p", typical_p=0), *both(VALUE, "xtc_probability", xtc_probability=2),
    *both(VALUE, "xtc_threshold", xtc_threshold=0), *both(VALUE, "dry_multiplier", dry_multiplier=-1), *both(VALUE, "dry_base", dry_base=0.5),
    *both(VALUE, "dry_allowed_length", dry_allowed_length=0), *both(VALUE, "dry_penalty_last_n", dry_penalty_last_n=-2), *both(TYPE, "dry_sequence_breakers", dry_sequence_breakers="x"),
    *both(VALUE, "dry_sequence_breakers[0]", dry_sequence_breakers=[""]), *both(VALUE, "allowed_token_ids", allowed_token_ids=[]), *both(VALUE, "allowed_token_ids", allowed_token_ids=[V]),
    *both(TYPE, "bad_words", "array", bad_words="x"), *both(VALUE, "bad_words[1]", "empty", bad_words=["a", ""]), *both(TYPE, "bad_words[0]", bad_words=[5]),
    *both(VALUE, "bad_words", "1024", bad_words=["x"] * 1025), *both(VALUE, "bad_words[0]", "1024", bad_words=["x" * 1025]),
    *both(VALUE, "bad_words", "no token", bad_words=["a"], allowed_token_ids=[97]),
    *both(TYPE, "banned_token_ids", banned_token_ids=5), *both(VALUE, "banned_token_ids", allowed_token_ids=[1], banned_token_ids=[1]),
    # Structured output.
    *both(TYPE, "response_format", response_format="json"), *both(VALUE, "response_format.type", response_format={"type": "xml"}), *both(VALUE, "response_format.type", response_format={}),
    *both(UNKNOWN, "response_format.x", response_format={"type": "text", "x": 1}), *both(MISSING, "response_format.json_schema", response_format={"type": "json_schema"}),
    *both(MISSING, "response_format.json_schema.schema", response_format={"type": "json_schema", "json_schema": {"name": "x"}}),
    *both(TYPE, "response_format.json_schema.schema", response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": 5}}),
    *both(CANNOT, "response_format.json_schema.schema", "uniqueItems", response_format=schema({"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}})),
    *both(CANNOT, "response_format.json_schema.schema", "/properties/a", response_format=schema({"properties": {"a": {"not": {"type": "null"}}}})),
    *both(VALUE, "guided_json", guided_json="{"), *both(VALUE, "guided_regex", guided_regex="("), *both(VALUE, "guided_grammar", guided_grammar="start: nothing_such"),
    *both(VALUE, "guided_choice", guided_choice=[]), *both(VALUE, "guided_choice[1]", guided_choice=["a", ""]), *both(TYPE, "guided_regex", guided_regex=5),
    *both(VALUE, "guided_regex", "already", guided_choice=["a"], guided_regex="a"), *both(UNKNOWN, "structured_outputs.x", structured_outputs={"x": 1}),
    # What is known and not there.
    chat(UNSUPPORTED, "tools", tools=[{"type": "function", "function": {"name": "f"}}]), chat(UNSUPPORTED, "tool_choice", tool_choice="required"),
    chat(UNSUPPORTED, "store", store=True), chat(UNSUPPORTED, "audio", audio={}), chat(UNSUPPORTED, "modalities", modalities=["audio"]),
    chat(UNSUPPORTED, "reasoning_effort", reasoning_effort="low"), chat(UNSUPPORTED, "chat_template", chat_template="x"),
    text(UNSUPPORTED, "suffix", suffix="x"), text(UNSUPPORTED, "best_of", best_of=2), text(UNSUPPORTED, "best_of", "n", best_of=3, n=2),
    text(TYPE, "best_of", best_of="2"),
    *both(UNSUPPORTED, "use_beam_search", use_beam_search=True), *both(UNSUPPORTED, "skip_special_tokens", skip_special_tokens=False),
    *both(UNSUPPORTED, "include_stop_str_in_output", include_stop_str_in_output=True), *both(UNSUPPORTED, "service_tier", service_tier="flex"),
    *both(TYPE, "user", user=5), *both(TYPE, "cache_salt", cache_salt=5), *both(TYPE, "priority", priority="high"),
    # The other endpoints.
    ("/tokenize", {}, 400, MISSING, "prompt", ""), ("/tokenize", {"prompt": 1}, 400, TYPE, "prompt", ""), ("/tokenize", {"prompt": "x", "y": 1}, 400, UNKNOWN, "y", ""),
    ("/tokenize", {"prompt": "x", "messages": USER}, 400, VALUE, "prompt", ""), ("/tokenize", {"prompt": "x", "model": "y"}, 404, "model_not_found", "model", ""),
    ("/detokenize", {}, 400, MISSING, "tokens", ""), ("/detokenize", {"tokens": "x"}, 400, TYPE, "tokens", ""), ("/detokenize", {"tokens": [V]}, 400, VALUE, "tokens[0]", ""),
    ("/detokenize", {"tokens": [-1]}, 400, VALUE, "tokens[0]", ""), ("/apply-template", {}, 400, MISSING, "messages", ""),
    ("/apply-template", {"messages": []}, 400, VALUE, "messages", ""), ("/apply-template", b"{", 400, JSON, None, "byte"),
    ("/v1/responses", {}, 404, "not_found", None, "/v1/responses"), ("/v1/embeddings", {}, 404, "not_found", None, ""), ("/nowhere", {}, 404, "not_found", None, ""),
    ("/health", {}, 405, "method_not_allowed", None, "GET"), ("/v1/models", {}, 405, "method_not_allowed", None, ""),
]
