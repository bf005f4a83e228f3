"""Meeting notes and what they are made from.

`recordings`        the files of a meeting, gathered and measured
`download_links`    signed links to those files
`download_limits`   how many downloads run at once
`notes`             the life of a note
`audio_chunks`      a recording in pieces
`transcripts`       what was said
`vtt`               a provider's transcript
`citations`         verbatim quotes
`markdown`          a note as text
"""
