package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestExpiredSession uses a codec for which every cookie is too old.
func TestExpiredSession(t *testing.T) {
	t.Parallel()
	s, err := NewSessions(nil, []byte("key"), "http://localhost", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if err := s.set(w, s.session, "session", signedIn{"ada"}, sessionFor); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.AddCookie(w.Result().Cookies()[0])
	if name, known := s.Person(r); !known || name != "ada" {
		t.Fatal("a new session is not known")
	}
	s.session.MaxAge(-1)
	if _, known := s.Person(r); known {
		t.Error("an expired session is known")
	}
	for back, want := range map[string]string{"/a/-/b?q=1": "/a/-/b?q=1", "//evil.example.com": "/", "https://evil.example.com/": "/", "/\\evil": "/", "": "/"} {
		if got := local(back); got != want {
			t.Errorf("%q leads to %q", back, got)
		}
	}
}
