package server

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/site"
)

// Report is the page of a report, which has a content security policy of its own.
type Report struct {
	Policy string
	Gzip   []byte // the page, compressed
}

// ErrNoReport means that a source has no report of a head.
var ErrNoReport = errors.New("there is no report of this head")

// reportOf reads the path of a report's page: merge-requests/NUMBER/COMMIT.html.
func reportOf(file string) (number int, head string, ok bool) {
	rest, ok := strings.CutPrefix(file, "merge-requests/")
	if !ok {
		return 0, "", false
	}
	text, name, ok := strings.Cut(rest, "/")
	head, html := strings.CutSuffix(name, ".html")
	number, err := strconv.Atoi(text)
	if !ok || !html || err != nil || number <= 0 || site.ReportPath(number, head) != file {
		return 0, "", false
	}
	const sha1, sha256 = 40, 64
	if len(head) != sha1 && len(head) != sha256 || strings.Trim(head, "0123456789abcdef") != "" {
		return 0, "", false
	}
	return number, head, true
}

// reportPage sends the report of a head.
func (s *Server) reportPage(w http.ResponseWriter, r *http.Request, repository string, number int, head string) {
	report, err := s.config.Source.Report(r.Context(), repository, number, head)
	if errors.Is(err, ErrNoReport) {
		http.Error(w, "the report of this head is not kept any more: `sluice diff --full BASE..HEAD` makes it again", http.StatusNotFound)
		return
	}
	if err != nil {
		s.config.Log.Error("a report cannot be read", "repository", repository, "merge_request", number, "head", head, "error", err)
		http.Error(w, "the report cannot be read: the log of the service says why", http.StatusInternalServerError)
		return
	}
	s.send(w, r, report)
}

// send sends a page of a report, compressed if the client takes that.
func (s *Server) send(w http.ResponseWriter, r *http.Request, report *Report) {
	h := w.Header()
	h.Set("Content-Security-Policy", report.Policy+"; frame-ancestors 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Add("Vary", "Accept-Encoding")
	if acceptsGzip(r) {
		h.Set("Content-Encoding", "gzip")
		write(w, report.Gzip)
		return
	}
	z, err := gzip.NewReader(bytes.NewReader(report.Gzip))
	if err == nil {
		_, err = io.Copy(w, z) //nolint:gosec // our own page, whose size its maker bounds
	}
	if err != nil && r.Context().Err() == nil {
		s.config.Log.Error("a report cannot be sent", "page", r.URL.Path, "error", err)
	}
}

// acceptsGzip reports whether a client takes compressed pages.
func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(part), ";")
		if strings.EqualFold(name, "gzip") {
			return strings.ReplaceAll(weight, " ", "") != "q=0"
		}
	}
	return false
}
