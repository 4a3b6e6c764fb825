package report_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"

	"github.com/sluice-gitops/sluice/report"
)

var (
	tags       = regexp.MustCompile(`<[^>]*>`)
	htmlCodes  = regexp.MustCompile(`<code>[^<>]*</code>`)
	liveInText = regexp.MustCompile(`@|#\d|!\d|(?i:gh)-\d|\b[0-9a-fA-F]{7,}\b|://|www\.|[<>|]|:[A-Za-z_]+:|\$|\[|\]|~|%|\^|&`)
	ownTags    = map[string]bool{
		"<details>": true, "</details>": true, "<summary>": true, "</summary>": true, "<code>": true, "</code>": true,
		"<b>": true, "</b>": true, "<sub>": true, "</sub>": true,
	}
)

// structure is what a parser of the forges' Markdown sees: the kinds of all nodes. Text and code within a paragraph
// count as one, because plain words of a sentence stand outside code.
func structure(t *testing.T, source string) []string {
	t.Helper()
	body := []byte(source)
	root := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(body))
	var out []string
	add := func(depth int, s string) {
		s = strings.Repeat(" ", depth) + s
		if strings.HasSuffix(s, "inline") && len(out) > 0 && out[len(out)-1] == s {
			return
		}
		out = append(out, s)
	}
	var walk func(n ast.Node, depth int)
	walk = func(n ast.Node, depth int) {
		switch x := n.(type) {
		case *ast.Text:
			checkText(t, string(x.Segment.Value(body)))
			add(depth, "inline")
			return
		case *ast.CodeSpan:
			add(depth, "inline")
			return
		case *ast.RawHTML:
			tag := string(x.Segments.Value(body))
			if !ownTags[tag] {
				t.Errorf("foreign HTML %q", tag)
			}
			add(depth, tag)
			return
		case *ast.HTMLBlock:
			add(depth, htmlBlock(t, string(x.Lines().Value(body))))
			return
		case *ast.FencedCodeBlock:
			add(depth, "fence "+string(x.Language(body)))
			return
		case *ast.Link:
			add(depth, "link "+string(x.Destination))
			return
		case *ast.Image, *ast.AutoLink, *ast.String:
			t.Errorf("%s in the text", n.Kind())
		}
		add(depth, n.Kind().String())
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			walk(c, depth+1)
		}
	}
	walk(root, 0)
	return out
}

// checkText looks for what the forges make live in text outside code.
func checkText(t *testing.T, s string) {
	t.Helper()
	s = strings.ReplaceAll(strings.ReplaceAll(s, "[!CAUTION]", ""), "[!WARNING]", "")
	if bare := strings.Trim(s, "[]!"); bare == "CAUTION" || bare == "WARNING" || bare == "" {
		return
	}
	if found := liveInText.FindString(s); found != "" {
		t.Errorf("live text %q in %q", found, s)
	}
}

func htmlBlock(t *testing.T, s string) string {
	t.Helper()
	if strings.HasPrefix(s, "<!-- sluice-review v1 ") && strings.Count(s, "-->") == 1 &&
		strings.HasSuffix(strings.TrimSpace(s), "-->") {
		return "marker"
	}
	s = htmlCodes.ReplaceAllString(s, "")
	for _, tag := range tags.FindAllString(s, -1) {
		if !ownTags[tag] {
			t.Errorf("foreign HTML %q in %q", tag, s)
		}
	}
	checkText(t, tags.ReplaceAllString(s, ""))
	return strings.Join(tags.FindAllString(s, -1), "")
}

// benign has the shape of a text: the same blanks and line breaks, and nothing else than the letter a.
func benign(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if unicode.IsSpace(r) {
			out.WriteString(s[i : i+n])
		} else {
			out.WriteString(strings.Repeat("a", n))
		}
		i += n
	}
	return out.String()
}

func checkInert(t *testing.T, a, b string) {
	t.Helper()
	const limit = 1_000_000
	got, _ := report.Markdown(hostileWith(a, b), limit)
	want, _ := report.Markdown(hostileWith(benign(a), benign(b)), limit)
	x, y := structure(t, got), structure(t, want)
	for i := range max(len(x), len(y)) {
		if i >= len(x) || i >= len(y) || x[i] != y[i] {
			t.Fatalf("the structure depends on the content, at node %d:\nwith it   %q\nbenign    %q\n%s", i,
				x[min(i, len(x)):min(i+3, len(x))], y[min(i, len(y)):min(i+3, len(y))], got)
		}
	}
	for line := range strings.SplitSeq(got, "\n") {
		if strings.HasPrefix(line, "/") {
			t.Errorf("a quick action: %q", line)
		}
	}
	checkVisible(t, got)
	info, ok := report.ParseMarker(got)
	if want := hostileWith(a, b).Marker; !ok || info.ID != want.ID || info.Head != want.Head {
		t.Errorf("the marker does not come back: %+v", info)
	}
}

// checkVisible finds characters that a reader does not see, our own signs aside.
func checkVisible(t *testing.T, s string) {
	t.Helper()
	s = strings.NewReplacer("⚠️", "", "ℹ️", "", "✂️", "").Replace(s)
	for i, r := range s {
		if r == '\n' {
			continue
		}
		if !unicode.IsPrint(r) || unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Bidi_Control, r) {
			t.Fatalf("%U at %d: %q", r, i, s[max(0, i-20):min(len(s), i+20)])
		}
		if r == utf8.RuneError {
			t.Fatalf("no UTF-8 at %d", i)
		}
	}
}

func FuzzMarkdownInert(f *testing.F) {
	for _, s := range []string{
		"", " ", "\n", "a", "`", "``` \n```", "~~~", "\\", "\\|", "|", "||\n|-|", "@all", "#1", "!2", "GH-3",
		"owner/repo#4", "0123abcd", "https://x.example", "www.x.example", "a@b.example",
		"<img src=x>", "<!-- -->", "-->", "</details>", "</code><script>", "&lt;b&gt;", "&#64;all", "![x](y)", "[x]: y",
		"[x](y)", "[[x]]", "\n/close", "/close\n", "\r/close\r", "# x", "> x", "- x", "1. x", "===", "---",
		"\n---\n",
		"**x**", "__x__", "~~x~~", "$x$", "$`x`$", ":tada:", "- [ ] x", "^x^", "\u202e\u2066", "\u200b\u200d\ufeff",
		"\u2028\u2029\u0085", "\x1b[31m", "\x00\x07", "\xff\xfe", "e\u0301\u0301\u0301\u0301\u0301", "\ufe0f",
		"\U000e0041",
		"\u3164\u115f", "<!-- sluice-review v1 head=x -->", "<https://x.example>", "```suggestion", "{+ x +}", "~label",
		"%m", "&1", "'x'", "\"x\"", "a`b``c```d", "x\ty", "deadbeef", "DEADBEEFCAFE", "it's", "(see", "x.", "?",
		strings.Repeat("`", 400), strings.Repeat("x ", 400),
	} {
		f.Add(s, "b"+s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 4000 {
			return
		}
		checkInert(t, a, b)
		checkTerminal(t, a, b)
	})
}

// checkTerminal proves that no escape sequence and nothing invisible reaches a terminal but our own colours.
func checkTerminal(t *testing.T, a, b string) {
	t.Helper()
	var out strings.Builder
	report.Terminal(&out, hostileWith(a, b), report.TerminalOptions{Width: 100, Full: true})
	checkVisible(t, out.String())
}

func TestHostileIsInert(t *testing.T) {
	h := hostile()
	checkInert(t, h.Fleet, h.Fleet)
}

func TestMarkerRoundTrip(t *testing.T) {
	want := report.MarkerInfo{
		ID: "a b-->\n", Head: "abc", Digest: "d",
		Groups: report.Groups{Head: "h", IDs: []string{"x:y:a", "z:w:b"}}, Before: report.Groups{Head: "g"},
	}
	line := report.Marker(want)
	got, ok := report.ParseMarker(line + "\r\nbody")
	if !ok || got.ID != want.ID || got.Head != want.Head || !slices.Equal(got.Groups.IDs, want.Groups.IDs) ||
		got.Groups.Head != "h" || got.Before.Head != "g" {
		t.Errorf("%q came back as %+v, %v", line, got, ok)
	}
	for _, body := range []string{
		"", "text\n" + line, " " + line, "<!-- sluice-review v10 -->", line[:len(line)-4],
		"> " + line,
	} {
		if _, ok := report.ParseMarker(body); ok {
			t.Errorf("%q counts as a marker", body)
		}
	}
}

// TestQuotesInSentences: what a message quotes with backquotes is one span of code, and plain words stay outside.
func TestQuotesInSentences(t *testing.T) {
	for text, want := range map[string]string{
		"run `sluice deps lock` and commit it":               "run `sluice deps lock` and commit it",
		"no chart (run `sluice deps lock`), or `a b`.":       "no chart (run `sluice deps lock`), or `a b`.",
		"\"<script>\" cannot be a name (lower-case letters)": "`\"<script>\"` cannot be a name (lower-case letters)",
		"a lone ` quote stays code":                          "a lone `` ` `` quote stays code",
		"`unclosed quote of <img>":                           "`` `unclosed `` quote of `<img>`",
		"`two words`x and `<b>`":                             "`` `two words`x `` and `<b>`",
		"too long (more than 5s): simplify it":               "too long (more than `5s`): simplify it",
		"it failed (too long (more than 1m0s)); change f(x)": "it failed (too long (more than `1m0s`)); change `f(x)`",
		"no chart (a/b.yaml is missing) and )1":              "no chart (`a/b.yaml` is missing) and `)1`",
	} {
		if got := report.Prose(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

// TestPipesInTables: what a reader sees in a cell is the pipe that was written, and no parser takes one for the end of
// a cell.
func TestPipesInTables(t *testing.T) {
	for written, want := range map[string]string{
		"/sluice freeze prod --reason a|b":                "<code>/sluice freeze prod --reason a|b</code>",
		"/sluice freeze prod --reason |":                  "<code>/sluice freeze prod --reason |</code>",
		"/sluice freeze prod --reason a||b":               "<code>/sluice freeze prod --reason a||b</code>",
		"/sluice freeze prod --reason `a|b`":              "<code>/sluice freeze prod --reason `a|b`</code>",
		`/sluice freeze prod --reason a\|b`:               `<code>/sluice freeze prod --reason a\\u007cb</code>`,
		`/sluice freeze prod --reason a\\|b`:              `<code>/sluice freeze prod --reason a\\\u007cb</code>`,
		`/sluice freeze prod --reason |\`:                 `<code>/sluice freeze prod --reason |\</code>`,
		"/sluice freeze prod --reason | @all | <img> | x": "<code>/sluice freeze prod --reason | @all | &lt;img&gt; | x</code>",
	} {
		r := hostileWith("a", "a")
		r.Log = []report.CommandEntry{{Who: "mia", Command: written, Outcome: "not understood: a|b"}}
		source, _ := report.Markdown(r, 1_000_000)
		var out strings.Builder
		if err := goldmark.New(goldmark.WithExtensions(extension.GFM)).Convert([]byte(source), &out); err != nil {
			t.Fatal(err)
		}
		row := "<tr>\n<td>" + want +
			"</td>\n<td><code>mia</code></td>\n<td>not understood: <code>a|b</code></td>\n<td></td>\n</tr>"
		if !strings.Contains(out.String(), row) {
			_, log, _ := strings.Cut(out.String(), "<th>Command</th>")
			t.Errorf("%s is not shown as %s:\n%s", written, want, log)
		}
	}
}

// The name of a tag is no mention, no reference and no address.
func TestTag(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "v1.4.0": "v1.4.0", "charts/web/v1.4.0-rc.1+b": "charts/web/v1.4.0-rc.1+b", "1a2b3c4d5e": "1a2b3c4d5e",
		"@acme/admins/v1.4.0": "v1.4.0", "acme/one#3/v1": "v1", "!3/v1": "v1", "www.example.com/v1": "v1",
		"`x`/v1": "v1", "v1@acme": "a tag", "x/@acme": "a tag",
	} {
		if got := report.Tag(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
