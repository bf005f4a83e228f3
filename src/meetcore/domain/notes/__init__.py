"""Meeting notes and their sources.

`recordings`   the files of a meeting, gathered and measured
`downloads`    signed links to those files, and how many run at once
`notes`        the life of a note
`transcripts`  utterances, audio chunks
`citations`    what bears out the items of a note
`numbers`      numbers in words and digits, by their values
`recognition`  texts that a speech model makes up of silence and noise
`vtt`          a provider's transcript
`speakers`     the names in it
`sources`      the transcript of each stretch
`due_dates`    the day that due words mean
`due_words`    the words of days
`edits`        corrections by hand
`markdown`     a note as text
`views`        records that the store reads and writes
"""
