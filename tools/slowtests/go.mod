module github.com/sluice-gitops/sluice/tools/slowtests

go 1.26
