package cli

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// Names and errors from outside are escaped in the log, in both formats.
func TestLogShowsInvisibleCharacters(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out strings.Builder
		slog.New(logHandler(&out, format, slog.LevelInfo)).Info("command", "who", "mia\u202egnp", "error",
			errors.New("a\u200bb \x1b[31m"))
		if text := out.String(); strings.ContainsAny(text, "\u202e\u200b\x1b") || !strings.Contains(text, `u202egnp`) {
			t.Errorf("%s: the text is %q", format, text)
		}
	}
}
