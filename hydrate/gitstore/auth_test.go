package gitstore

import (
	"fmt"
	"strings"
	"testing"
)

func TestNoCredentialInAnError(t *testing.T) {
	root := t.TempDir()
	runGit(t, root, "init", "-q", "--bare", "r.git")
	server := backend(t, root, "me", "right")
	s := open(t, Options{Dir: source(t)})
	for _, c := range []struct {
		address string
		auth    Auth
	}{
		{server.URL + "/r.git", Auth{User: "me", Password: "hunter2"}},
		{server.URL + "/r.git", Auth{Token: "hunter2"}},
		{strings.Replace(server.URL, "http://", "http://me:hunter2@", 1) + "/r.git", Auth{}},
		{"http://me:hunter2@127.0.0.1:1/r.git", Auth{}},
		{"https://me:hunter2@%zz/r.git", Auth{}},
	} {
		b, err := s.Remote(c.address, c.auth)
		if err == nil {
			_, err = b.List(t.Context(), "")
			if strings.Contains(b.String(), "hunter2") {
				t.Errorf("the address shows it: %s", b)
			}
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(fmt.Sprintf("%+v %#v", err, err), "hunter2") {
			t.Errorf("%s: %v", redactURL(c.address), err)
		}
	}
	ok, err := s.Remote(strings.Replace(server.URL, "http://", "http://me:right@", 1)+"/r.git", Auth{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ok.List(t.Context(), ""); err != nil {
		t.Errorf("credentials of the address were not used: %v", err)
	}
}
