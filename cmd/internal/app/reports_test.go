package app_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-gitops/sluice/service"
	"github.com/sluice-gitops/sluice/site/server"
)

// TestReplicasShareReports: each replica has the page of each reviewed head and lists all merge requests, whichever of
// them made the reviews. That is also true of a replica that starts later, and after a merge request is closed.
func TestReplicasShareReports(t *testing.T) {
	url := nats(t) // ends after those who use it
	s := newStory(t, "github")
	s.config += "queue: {url: \"" + url + "\", replicas: 1}\npages: {listen: \"127.0.0.1:1\"}\n"
	var first *service.Service
	s.prepare = func(one *service.Service) { first = one }
	s.start()
	second := s.another("second")
	var numbers []int
	for _, currency := range []string{"CAD", "MXN", "BRL"} {
		s.branch(strings.ToLower(currency), currency)
		number := s.open(strings.ToLower(currency), "ada")
		s.says(number, currency)
		numbers = append(numbers, number)
	}
	page := func(p *server.Server, path string) (int, string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/f/"+repo+"/-/"+path, nil)
		p.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	pages := func(one *service.Service) *server.Server {
		p, err := one.Pages()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	all := map[string]*server.Server{"first": pages(first), "second": pages(second), "third": pages(s.another("third"))}
	for name, p := range all {
		for i, number := range numbers {
			path := "merge-requests/" + strconv.Itoa(number) + "/" + s.head(number) + ".html"
			s.until(name+" has the report of merge request "+strconv.Itoa(number), func() bool {
				code, body := page(p, path)
				return code == http.StatusOK && strings.Contains(body, []string{"CAD", "MXN", "BRL"}[i]) &&
					strings.Contains(body, `<a href="../`+strconv.Itoa(number)+`.html">All reviewed heads`)
			})
			s.until(name+" lists it with a link", func() bool {
				_, list := page(p, "merge-requests.html")
				_, own := page(p, "merge-requests/"+strconv.Itoa(number)+".html")
				return strings.Contains(list, ">#"+strconv.Itoa(number)+" by ada") &&
					strings.Contains(own, s.head(number)+".html")
			})
		}
		if code, body := page(p, "merge-requests/"+strconv.Itoa(numbers[0])+"/"+strings.Repeat("0", 40)+
			".html"); code != http.StatusNotFound || !strings.Contains(body,
			"this replica has no report of this head") {
			t.Errorf("%s: an unknown head: %d %s", name, code, body)
		}
	}
	s.shut(numbers[0])
	for name, p := range all {
		s.until(name+" lists the closed merge request as closed", func() bool {
			_, own := page(p, "merge-requests/"+strconv.Itoa(numbers[0])+".html")
			return strings.Contains(own, "· closed")
		})
	}
}
