package safetext_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                        "",
		"plain text 1.2":          "plain text 1.2",
		"Žofie 日本 مرحبا ✓":        "Žofie 日本 مرحبا ✓",
		"a\nb\tc\r":               `a\nb\tc\r`,
		"\x1b[31mred\x1b[0m":      `\x1b[31mred\x1b[0m`,
		"\x7f\u0085\u009b":        `\x7f\u0085\u009b`,
		"user\u202egnp.exe":       `user\u202egnp.exe`,
		"\u2066a\u2069\u200e":     `\u2066a\u2069\u200e`,
		"ad\u200bmin\u200d\ufeff": `ad\u200bmin\u200d\ufeff`,
		"a\u00a0b\u2028":          `a\u00a0b\u2028`,
		"\xff\xfe":                `\xff\xfe`,
		"\u3164\u2800":            `\u3164\u2800`,
		"\U000e0041":              `\U000e0041`,
		"e\u0301":                 "e\u0301",
		"\u0301e":                 `\u0301e`,
	} {
		if got := safetext.Line(in); got != want {
			t.Errorf("Line(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestLinesDefusesLogCommands(t *testing.T) {
	in := "first\n::add-mask::x\n  ::set-env name=A::b\n##[error]x ##vso[task.x]\n\x1b]0;t\x07\tend  \r\n\n"
	want := "first\n\\x3a:add-mask::x\n\\x3a:set-env name=A::b\n#\\x23[error]x #\\x23vso[task.x]\n\\x1b]0;t\\x07    end"
	if got := safetext.Lines(in); got != want {
		t.Errorf("\nthe result of Lines is %q, want\n%q", got, want)
	}
}

func TestMessageIsBounded(t *testing.T) {
	if got, want := safetext.Message("a\nbcdefgh\nc\nd\n", 2, 4), "a\nbcd…\n… 2 more lines"; got != want {
		t.Errorf("the result of Message is %q, want %q", got, want)
	}
	if got := safetext.Message("a\nb\nc", 2, 4); !strings.HasSuffix(got, "\n… 1 more line") {
		t.Errorf("the result of Message is %q", got)
	}
	if got := safetext.Message("a\nb", 2, 4); got != "a\nb" {
		t.Errorf("the result of Message is %q", got)
	}
}

func TestShorten(t *testing.T) {
	for _, tc := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"日本語", 1, "…"}, {"", 1, ""}} {
		if got := safetext.Shorten(tc.in, tc.n); got != tc.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", tc.in, tc.n, got, tc.want)
		}
	}
}

func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: safetext.Log}))
	log.Info("pushed", "by", "mia\u202e", "err", errors.New("x\u200by"), "n", 1)
	if text := out.String(); strings.ContainsAny(text, "\u202e\u200b") || !strings.Contains(text, `mia\\u202e`) {
		t.Errorf("log line %q", text)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\u0301\u0301\u0301\u0301\u0301\x00\xff\u2029")
	f.Fuzz(func(t *testing.T, s string) {
		got := safetext.Line(s)
		if !utf8.ValidString(got) || strings.ContainsRune(got, '\n') {
			t.Fatalf("the result of Line is %q", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("%U in %q", r, got)
			}
		}
		if again := safetext.Line(got); again != got {
			t.Fatalf("not idempotent: %q, %q", got, again)
		}
		if short := safetext.Shorten(s, 10); utf8.RuneCountInString(short) > 10 {
			t.Fatalf("Shorten returned %q", short)
		}
	})
}
