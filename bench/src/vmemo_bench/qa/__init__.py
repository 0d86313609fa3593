"""QA mode: answer the questions of a dataset with one model and judge the answers with another."""
