#!/usr/bin/env python3
"""The chat page in a browser: a question, its streamed answer, the stop button, settings, Markdown, narrow and dark screens.

    DEEPINFER_BIN=build/release/deepinfer python3 tests/http/page_test.py [--pictures FOLDER] [-v]

Needs Chromium (scripts/packages.txt).
"""
import os
import shutil
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import venv_packages  # noqa: E402

venv_packages.require("playwright")
from http_test import Case  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402
from server import LONG, SCRIPTS, Server, make_model  # noqa: E402

CHROMIUM = shutil.which("chromium")
PICTURES = None
MARKDOWN = """# Title

Some **bold**, *slanted* and `code <b>` with a [link](https://example.com/a?b=c&d) and [no link](javascript:alert(1)).

1. one
2. two
   - inner

> quoted

| a | b |
|---|---|
| 1 | 2 |

```python
print("<i>not slanted</i>")
```
<img src=x onerror="document.title='broken'"> <script>document.title='broken'</script>
"""


@unittest.skipIf(CHROMIUM is None and os.environ.get("DEEPINFER_REQUIRE_ASSETS") != "1", "Chromium is not installed")
class Page(Case):
    ARGUMENTS = ["--max-model-len", "4000", "--max-num-seqs", "2", "--max-num-batched-tokens", "128"]

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        writer = make_model(cls.folder / "writer", {**SCRIPTS, 2: MARKDOWN})  # 2 is what a system message chooses
        cls.writer = Server([*writer, *cls.ARGUMENTS], cache=cls.folder / "cache")
        talker = make_model(cls.folder / "talker", {**SCRIPTS, 3: LONG}, ends=False, max_positions=200000)
        cls.talker = Server([*talker, "--max-model-len", "100000", *cls.ARGUMENTS[2:]], cache=cls.folder / "cache")
        cls.playwright = sync_playwright().start()
        cls.browser = cls.playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.playwright.stop()
        cls.writer.close()
        cls.talker.close()
        super().tearDownClass()

    def open(self, server, **options):
        page = self.browser.new_context(**options).new_page()
        page.set_default_timeout(0)
        self.problems = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.goto(server.url + "/")
        self.addCleanup(page.context.close)
        return page

    def ask(self, page, text):
        page.get_by_label("Message").fill(text)
        page.get_by_label("Message").press("Enter")

    def limit(self, page, tokens):
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("Max tokens").fill(str(tokens))
        page.get_by_role("button", name="Settings").click()

    def picture(self, page, name):
        if PICTURES:
            page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))

    def test_question_and_answer(self):
        page = self.open(self.server)
        page.get_by_text("scripted").wait_for()
        self.ask(page, "hello <b>you</b>")
        page.locator(".note").wait_for()
        self.assertEqual(page.locator(".user").inner_text(), "hello <b>you</b>")
        self.assertEqual(page.locator(".assistant p").inner_text(), SCRIPTS[3].strip())
        self.assertRegex(page.locator(".note").inner_text(), rf"^{len(SCRIPTS[3]) + 1} tokens, [\d.]+ per second$")
        # The next question sends the whole conversation.
        with page.expect_request("**/v1/chat/completions") as sent:
            self.ask(page, "again")
        roles = [m["role"] for m in sent.value.post_data_json["messages"]]
        self.assertEqual(roles, ["user", "assistant", "user"])
        page.locator(".note").nth(1).wait_for()
        page.get_by_role("button", name="New chat").click()
        self.assertEqual(page.locator(".message").count(), 0)
        self.assertEqual(self.problems, [])

    def test_stop(self):
        page = self.open(self.talker)
        self.ask(page, "hello")
        page.locator(".assistant p").wait_for()
        page.get_by_role("button", name="Stop").click()
        page.get_by_text("Stopped.").wait_for()
        self.assertTrue(page.get_by_role("button", name="Send").is_visible())
        self.talker.wait_for_metric("vllm:num_requests_running", 0)
        self.assertEqual(self.problems, [])

    def test_streams_as_it_comes(self):
        page = self.open(self.talker)
        page.evaluate("""() => { window.seen = new Set(); new MutationObserver(() => {
            const a = document.querySelector('.assistant'); if (a) window.seen.add(a.innerText.length); })
            .observe(document.getElementById('log'), { childList: true, subtree: true, characterData: true }); }""")
        self.limit(page, 1000)
        self.ask(page, "hello")
        page.locator(".note").wait_for()
        self.assertGreater(page.evaluate("window.seen.size"), 3)
        self.assertEqual(page.locator(".assistant p").inner_text(), LONG[:1000].strip())
        self.assertIn("the limit of tokens was reached", page.locator(".note").inner_text())

    def test_markdown_and_settings(self):
        page = self.open(self.writer)
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("System prompt").fill("write")
        page.get_by_label("System prompt").press("Tab")
        page.get_by_label("Temperature").fill("0")
        self.picture(page, "settings")
        with page.expect_request("**/v1/chat/completions") as sent:
            self.ask(page, "hello")
        self.assertEqual((sent.value.post_data_json["messages"][0], sent.value.post_data_json["temperature"]), ({"role": "system", "content": "write"}, 0))
        page.locator(".note").wait_for()
        answer = page.locator(".assistant")
        count = lambda selector: answer.locator(selector).count()  # noqa: E731
        self.assertEqual([count(s) for s in ("h2", "strong", "em", "ol > li", "ol ul > li", "blockquote", "td", "pre")], [1, 1, 1, 2, 1, 1, 2, 1])
        self.assertEqual(answer.locator("a").evaluate_all("all => all.map(a => a.getAttribute('href'))"), ["https://example.com/a?b=c&d"])
        self.assertEqual(answer.locator("pre").inner_text().strip(), 'print("<i>not slanted</i>")')
        self.assertEqual((count("script"), count("img"), count("i"), page.title()), (0, 0, 0, "DeepInfer"))
        page.get_by_role("button", name="Settings").click()
        for name, options in (("light", {}), ("dark", {"color_scheme": "dark"})):
            page.emulate_media(color_scheme=options.get("color_scheme", "light"))
            self.picture(page, name)
        self.assertNotEqual(page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)")
        self.assertEqual(self.problems, [])

    def test_on_a_phone(self):
        page = self.open(self.talker, viewport={"width": 360, "height": 640}, device_scale_factor=2, is_mobile=True, has_touch=True)
        self.limit(page, 300)
        self.ask(page, "hello")
        page.locator(".note").wait_for()
        self.picture(page, "phone")
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), 360)
        box = page.get_by_role("button", name="Send").bounding_box()
        self.assertTrue(box["y"] + box["height"] <= 640 and box["x"] + box["width"] <= 360, box)

    def test_errors_are_shown(self):
        server = Server([*self.model, *self.ARGUMENTS, "--api-key", "k"], cache=self.folder / "cache")
        self.addCleanup(server.close)
        page = self.open(server)
        page.get_by_text("this server wants an API key").first.wait_for()
        self.ask(page, "hello")
        page.locator(".error").wait_for()
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("API key").fill("k")
        page.get_by_label("API key").press("Tab")
        self.ask(page, "hello")
        page.locator(".assistant p").wait_for()


if __name__ == "__main__":
    if "--pictures" in sys.argv:
        at = sys.argv.index("--pictures")
        PICTURES = sys.argv[at + 1]
        del sys.argv[at:at + 2]
    unittest.main()
