package server

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sluice-gitops/sluice/report"
	"github.com/sluice-gitops/sluice/site"
)

// Report is the page of a report, which has a content security policy of its own.
type Report struct {
	Policy string
	Gzip   []byte   // the page, compressed
	Needs  []string // further repositories with content in the report, which a reader must be able to read
}

// ErrNoReport means that a source has no report of a head.
var ErrNoReport = errors.New("there is no report of this head")

// Head names the report of a head of a merge request.
type Head struct {
	Fleet string // the repository whose pages have the report
	// of the merge request: another one if the fleet takes content from it, and reviews its merge requests
	Repository string
	Number     int
	Commit     string
}

// othersFolder begins the paths of reports of merge requests of other repositories.
const othersFolder = "merge-requests/of/"

// Path returns the path of the page on the server, without the first slash and not escaped.
func (h Head) Path() string {
	page := site.ReportPath(h.Number, h.Commit)
	if h.Repository != h.Fleet {
		page = othersFolder + h.Repository + strings.TrimPrefix(page, "merge-requests")
	}
	return h.Fleet + "/-/" + page
}

// Back is a link from the report to the page that lists it. That of another repository is on no list, and leads to the
// overview.
func (h Head) Back() report.Link {
	if h.Repository == h.Fleet {
		return report.Link{
			Name:    "All reviewed heads",
			Address: fmt.Sprintf("../%d.html", h.Number),
		}
	}
	up := strings.Count(strings.TrimPrefix(h.Path(), h.Fleet+"/-/"), "/")
	return report.Link{Name: "Overview of the fleet", Address: strings.Repeat("../", up) + "index.html"}
}

// reportOf reads the path of a report's page below the pages of a fleet: merge-requests/NUMBER/COMMIT.html, or
// merge-requests/of/REPOSITORY/NUMBER/COMMIT.html.
func reportOf(fleet, file string) (Head, bool) {
	h := Head{Fleet: fleet, Repository: fleet}
	rest, ok := strings.CutPrefix(file, othersFolder)
	if !ok {
		rest, ok = strings.CutPrefix(file, "merge-requests/")
	}
	parts := strings.Split(rest, "/")
	if n := len(parts); ok && n >= 2 {
		if n > 2 {
			h.Repository = strings.Join(parts[:n-2], "/")
		}
		h.Number, _ = strconv.Atoi(parts[n-2]) // an invalid number fails the comparison of paths below
		h.Commit = strings.TrimSuffix(parts[n-1], ".html")
	}
	if h.Number <= 0 || !isCommit(h.Commit) || h.Path() != fleet+"/-/"+file {
		return Head{}, false
	}
	return h, true
}

func isCommit(s string) bool {
	const sha1, sha256 = 40, 64
	return (len(s) == sha1 || len(s) == sha256) && strings.Trim(s, "0123456789abcdef") == ""
}

// reportPage sends the report of a head to a person who may read the fleet. A report on a merge request of another
// repository, or with content of other repositories, is shown only to those who may read these too; for others it does
// not exist.
func (s *Server) reportPage(w http.ResponseWriter, r *http.Request, person string, h Head) {
	report, err := s.config.Source.Report(r.Context(), h)
	if err == nil { // rights are asked only for repositories that have a report here, not for any name in an address
		needs := report.Needs
		if h.Repository != h.Fleet {
			needs = append([]string{h.Repository}, needs...)
		}
		for _, repository := range needs {
			may, unknown := s.rights.may(r.Context(), person, repository)
			if unknown != nil {
				s.rightUnknown(w, r, person, repository, unknown)
				return
			}
			if !may {
				err = ErrNoReport
				break
			}
		}
	}
	if errors.Is(err, ErrNoReport) {
		message(w, r, http.StatusNotFound, "this replica has no report of this head (run `sluice diff --full BASE..HEAD` to create it)")
		return
	}
	if err != nil {
		s.config.Log.Error("a report cannot be read", "fleet", h.Fleet, "repository", h.Repository, "merge_request",
			h.Number, "head", h.Commit, "error", err)
		message(w, r, http.StatusServiceUnavailable, "the report cannot be read now: the log of the service says why")
		return
	}
	s.send(w, r, report)
}

// send sends the page of a report, with gzip if the client accepts it.
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
